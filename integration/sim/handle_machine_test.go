package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/go-redlock/redlock"
)

var background = context.Background()

// machine is two processes on three masters, and a model of their handles.
type machine struct {
	model
	*world
	lastFence int64
	grants    []*grant
}

// After any sequence of operations and faults a handle is in the state that a model of a few lines
// predicts. rapid prints the seed of a sequence that fails, and shortens it.
func TestAHandleIsAlwaysInTheStateThatTheModelSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed any // rapid reports failures by panics, which do not cross goroutines
		synctest.Test(t, func(*testing.T) {
			p := &plan{masters: 3, clients: 2, ttl: 2 * time.Second, fencing: true}
			m := &machine{world: &world{plan: p, history: newHistory(), counts: &counted{}, random: p.random(2), still: true}}
			m.open()
			defer m.close()
			defer func() { failed = recover() }()
			m.up = [3]bool{true, true, true}
			rt.Repeat(map[string]func(*rapid.T){
				"": m.agrees, "acquire": m.acquires, "share": m.shares, "extend": m.extends, "check": m.checks, "release": m.releases,
				"detach": m.detaches, "resume": m.resumes, "time passes": m.passes, "stop": m.stops, "start": m.starts, "delete": m.deletes,
			})
			m.leavesNothing(rt)
		})
		switch { // on two lines: rapid takes panics from one line for the same failure
		case rt.Failed():
			panic(failed)
		case failed != nil:
			panic(failed)
		}
	})
}

func milliseconds(rt *rapid.T, what string, from, to int) time.Duration {
	return time.Duration(rapid.IntRange(from, to).Draw(rt, what)) * time.Millisecond
}

// one returns one of the handles, the latest first.
func (m *machine) one(rt *rapid.T) *handle {
	if len(m.handles) == 0 {
		rt.Skip("no handle yet")
	}
	return m.handles[len(m.handles)-1-rapid.IntRange(0, min(len(m.handles), 6)-1).Draw(rt, "which of the handles")]
}

// is fails unless the error matches one of the expected ones. Without expected errors it must be
// nil.
func is(rt *rapid.T, err error, right ...error) {
	rt.Helper()
	for _, r := range right {
		if r == nil && err == nil || r != nil && errors.Is(err, r) {
			return
		}
	}
	if err != nil || len(right) > 0 {
		rt.Fatalf("%v, and not %v", err, right)
	}
}

func (m *machine) acquires(rt *rapid.T) {
	h := &handle{by: rapid.IntRange(0, 1).Draw(rt, "by"), ttl: milliseconds(rt, "ttl", 1000, 6000), of: &grant{number: len(m.grants) + 1}}
	var opts []redlock.LockOption
	switch rapid.SampledFrom([]string{"plain", "max", "min"}).Draw(rt, "option") {
	case "max":
		h.maxHold = milliseconds(rt, "max hold", 500, 8000)
		opts = append(opts, redlock.WithMaxHold(h.maxHold))
	case "min":
		h.minHold = milliseconds(rt, "min hold", 500, 8000)
		opts = append(opts, redlock.WithMinHold(h.minHold))
	}
	right := m.take(h, time.Now())
	k, err := m.clients[h.by].locker.TryAcquire(background, "a", h.ttl, opts...)
	is(rt, err, right...)
	if err == nil {
		if k.Fence() <= m.lastFence {
			rt.Fatalf("a fence that is no larger than the one before")
		}
		h.Lock, h.of.token, m.lastFence = k, k.Token(), k.Fence()
		m.grants = append(m.grants, h.of)
	}
}

// shares requests a share of a lock, or the lock again without requesting a share.
func (m *machine) shares(rt *rapid.T) {
	root := m.one(rt)
	if root.root != nil || root.cause != nil {
		rt.Skip("nothing to share")
	}
	l := m.clients[root.by].locker
	_, err := l.TryAcquire(root.Context(), "a", root.ttl)
	is(rt, err, redlock.ErrAlreadyHeld)
	_, err = l.TryAcquire(root.Context(), "a", max(root.ttl, root.minHold)+time.Millisecond, redlock.WithShared())
	is(rt, err, redlock.ErrInvalid)
	s := &handle{of: root.of, by: root.by, root: root, ttl: root.ttl, began: time.Now(), maxHold: milliseconds(rt, "max hold", 1, 5000)}
	s.Lock, err = l.TryAcquire(root.Context(), "a", root.ttl, redlock.WithShared(), redlock.WithMaxHold(s.maxHold))
	is(rt, err)
	m.handles = append(m.handles, s)
}

// asks performs an operation on a lock and compares the result with the model. If the lock has
// ended the result must say why.
func (m *machine) asks(h *handle, does func(root *handle) []error) (right []error) {
	switch {
	case h.cause != nil:
		return []error{h.cause}
	case h.root != nil:
		return does(h.root)
	}
	return does(h)
}

func (m *machine) extends(rt *rapid.T) {
	h, ttl, now := m.one(rt), milliseconds(rt, "ttl", 10, 8000), time.Now()
	right := m.asks(h, func(h *handle) []error { return m.extend(h, ttl, now) })
	is(rt, h.Extend(background, ttl), right...)
}

func (m *machine) checks(rt *rapid.T) {
	h, now := m.one(rt), time.Now()
	skipNearEnd(rt, m.supported(h.of, now), now)
	right := m.asks(h, func(h *handle) []error { return m.model.check(h, now) })
	is(rt, h.Check(background), right...)
	if h.root != nil {
		h = h.root
	}
	if left := h.Remaining(); h.cause == nil && h.end().Equal(h.until) && (h.left(now)-left).Abs() <= 4*time.Millisecond {
		h.until = time.Now().Add(left) // PTTL is truncated to milliseconds
	}
}

func (m *machine) releases(rt *rapid.T) {
	h := m.one(rt)
	if !h.given {
		h.given, h.result = true, h.cause
		if h.cause == nil {
			h.result = m.release(h, time.Now())
		}
	}
	is(rt, h.Release(background), h.result)
}

func (m *machine) detaches(rt *rapid.T) {
	h := m.one(rt)
	right := h.cause
	if h.root != nil || h.minHold > 0 {
		right = redlock.ErrInvalid
	} else if right == nil {
		m.finish(h, time.Now(), redlock.ErrDetached, false)
	}
	claim, err := h.Detach()
	is(rt, err, right)
	if err == nil {
		m.claims = append(m.claims, claimed{claim, h.of})
	}
}

// skipNearEnd skips a case whose result depends on a fraction of a millisecond.
func skipNearEnd(rt *rapid.T, untils []time.Time, now time.Time) {
	for _, until := range untils {
		if until.Sub(now) < 5*time.Millisecond {
			rt.Skip("too near to the end of the validity")
		}
	}
}

func (m *machine) resumes(rt *rapid.T) {
	if len(m.claims) == 0 {
		rt.Skip("no claim")
	}
	i := rapid.IntRange(0, len(m.claims)-1).Draw(rt, "which of the claims")
	c, now := m.claims[i], time.Now()
	h := &handle{of: c.of, by: rapid.IntRange(0, 1).Draw(rt, "by"), ttl: c.TTL, began: now}
	untils := m.supported(c.of, now)
	_, no, _ := m.votes(c.of, now)
	skipNearEnd(rt, untils, now)
	var right error
	switch {
	case no >= 2:
		right = redlock.ErrLost
	case len(untils) < 2:
		right = redlock.ErrNoQuorum
	}
	l := m.clients[h.by].locker
	k, err := l.Resume(background, c.Claim)
	is(rt, err, right)
	if err != nil {
		return
	}
	// The first two masters that answer decide.
	left := k.Remaining()
	if left > untils[1].Sub(now) || left < untils[len(untils)-1].Sub(now)-time.Millisecond {
		rt.Fatalf("%v are left, and masters hold it until %v", left, untils)
	}
	_, err = l.Resume(background, c.Claim)
	is(rt, err, redlock.ErrAlreadyHeld)
	h.Lock, h.until = k, now.Add(left)
	m.handles = append(m.handles, h)
	m.claims = append(m.claims[:i:i], m.claims[i+1:]...)
}

func (m *machine) passes(rt *rapid.T) { time.Sleep(milliseconds(rt, "time", 1, 4000)) }

func (m *machine) master(rt *rapid.T, up bool) int {
	i := rapid.IntRange(0, 2).Draw(rt, "master")
	if m.up[i] != up {
		rt.Skip("already in that state, or not reachable")
	}
	return i
}

func (m *machine) stops(rt *rapid.T) {
	i := m.master(rt, true)
	m.up[i] = false
	var failures []int64
	for _, c := range m.clients {
		failures = append(failures, c.nodes[i].Stats().DialFailures)
	}
	m.masters[i].Stop()
	// A failed dial makes commands fail at once. Until then they wait. If the last connection lived
	// for less than a second, they wait for the pause before the dial.
	for n, c := range m.clients {
		for c.nodes[i].Stats().DialFailures == failures[n] {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
	}
}

// starts waits until all clients are connected again, and all pending undos on that master are
// done.
func (m *machine) starts(rt *rapid.T) {
	i := m.master(rt, false)
	require.NoError(rt, m.masters[i].Restart(true))
	time.Sleep(time.Second)
	synctest.Wait()
	m.applyDue(time.Now()) // while the model still has the master as down, which it may have been
	m.up[i] = true
	for _, of := range m.undone[i] {
		if m.keys[i].of == of {
			m.keys[i] = copyOf{}
		}
	}
	if m.vague[i] { // the arrival of a command shortens the minimum hold
		m.keys[i].until = earlier(m.keys[i].until, time.Now().Add(m.masters[i].TTL("a")))
	}
	m.undone[i], m.vague[i] = nil, false
}

func (m *machine) deletes(rt *rapid.T) {
	i := m.master(rt, true)
	if of := m.current(i, time.Now()); of != nil {
		of.robbed = true
	}
	m.masters[i].Del("a")
	m.keys[i] = copyOf{}
}

// agrees compares everything observable with the model.
func (m *machine) agrees(rt *rapid.T) {
	time.Sleep(time.Microsecond) // do not observe the very instant at which a hold ends
	synctest.Wait()
	now := time.Now()
	m.applyDue(now)
	var holder *handle
	for n, h := range m.handles {
		what := fmt.Sprintf("handle %d of %d, of grant %d, by %d, share %t", n+1, len(m.handles), h.of.number, h.by, h.root != nil)
		left, cause := h.Remaining(), context.Cause(h.Context())
		if h.cause != nil {
			if left > 0 || !errors.Is(cause, h.cause) {
				rt.Fatalf("%s: %v are left, its context says %v, and it has ended by %v", what, left, cause, h.cause)
			}
			continue
		}
		if should := h.left(now); cause != nil || left != should {
			rt.Fatalf("%s: %v are left, its context says %v, and it is held for %v", what, left, cause, should)
		}
		if h.root == nil && !h.of.robbed {
			if holder != nil {
				rt.Fatalf("%s: held at once with grant %d", what, holder.of.number)
			}
			holder = h
		}
	}
	for i, up := range m.up {
		token, ok := m.masters[i].Get("a")
		of := m.current(i, now)
		if up && (ok != (of != nil) || ok && token != of.token) {
			rt.Fatalf("master %d: key exists: %t, key in the model: %t, or the tokens differ", i+1, ok, of != nil)
		}
	}
}

// leavesNothing checks that locks that were not released have ended, and that no key is left.
func (m *machine) leavesNothing(rt *rapid.T) {
	for i, up := range m.up {
		if !up {
			require.NoError(rt, m.masters[i].Restart(true))
		}
	}
	time.Sleep(20 * time.Second)
	synctest.Wait()
	for i := range m.masters {
		if _, ok := m.masters[i].Get("a"); ok {
			rt.Fatalf("master %d: a key is left", i+1)
		}
	}
}
