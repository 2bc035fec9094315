package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

var bg = context.Background()

// testbed has the nodes of Lockers in a bubble: the real client over in-memory connections, in
// virtual time.
type testbed struct {
	t       *testing.T
	masters []*fakeredis.Master
}

// inBubble runs f on n masters in virtual time. The bubble fails if a goroutine is left at its end.
func inBubble(t *testing.T, n int, f func(fl *testbed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &testbed{t: t}
		for i := range n {
			fl.masters = append(fl.masters, fakeredis.New(fmt.Sprintf("n%d", i+1)))
		}
		defer fl.each((*fakeredis.Master).Close)
		f(fl)
	})
}

func (fl *testbed) each(f func(m *fakeredis.Master)) {
	for _, m := range fl.masters {
		f(m)
	}
}

// locker makes a Locker with nodes of its own that are connected, as in another process. It is closed
// when the test ends.
func (fl *testbed) locker(opts ...redlock.Option) *redlock.Locker {
	fl.t.Helper()
	var nodes []*pool.Node
	for _, m := range fl.masters {
		nodes = append(nodes, fl.node(m, m.Name()))
	}
	return fl.over(nodes, opts...)
}

// twice is locker over three nodes, of which the last two are one server.
func (fl *testbed) twice(opts ...redlock.Option) *redlock.Locker {
	fl.t.Helper()
	return fl.over([]*pool.Node{fl.node(fl.masters[0], "a"), fl.node(fl.masters[1], "b"), fl.node(fl.masters[1], "c")}, opts...)
}

func (fl *testbed) node(m *fakeredis.Master, name string) *pool.Node {
	n, err := pool.Open(pool.Config{Name: name, Address: m.Addr(), Dial: m.Dial, Clock: clock.Runtime()})
	require.NoError(fl.t, err)
	return n
}

func (fl *testbed) over(nodes []*pool.Node, opts ...redlock.Option) *redlock.Locker {
	fl.t.Helper()
	l, err := redlock.New(nodes, append([]redlock.Option{redlock.WithClock(clock.Runtime()), redlock.WithOwner("")}, opts...)...)
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() { end(l) })
	synctest.Wait() // the first dials are finished
	return l
}

// end closes a Locker, and spends no virtual time on locks that are held.
func end(l *redlock.Locker) {
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_ = l.Close(ctx)
}

// count returns how many of these commands the masters were sent.
func (fl *testbed) count(name string) (n int) {
	fl.each(func(m *fakeredis.Master) { n += m.Commands()[name] })
	return n
}

// markers returns the state of each master's marker: "ok", "q" or "".
func (fl *testbed) markers() (states []string) {
	fl.each(func(m *fakeredis.Master) {
		marker, _ := m.Get(guard.Key)
		state := marker[strings.LastIndex(marker, "|")+1:]
		if strings.HasPrefix(state, "q") {
			state = "q"
		}
		states = append(states, state)
	})
	return states
}

// diagnosed returns a report and its findings in short form.
func diagnosed(t *testing.T, l *redlock.Locker) (*Report, []string) {
	t.Helper()
	r, err := Diagnose(bg, l)
	require.NoError(t, err)
	var short []string
	for _, n := range r.Nodes {
		for _, f := range n.Findings {
			short = append(short, fmt.Sprintf("%s: %v %s", n.Node, f.Grade, f.Code))
		}
	}
	for _, f := range r.Findings {
		short = append(short, fmt.Sprintf("%v %s", f.Grade, f.Code))
	}
	return r, short
}

// grades returns all findings of a report in short form.
func grades(r *Report) (short []string) {
	for _, f := range r.All() {
		short = append(short, string(f.Grade)+" "+f.Code)
	}
	return short
}

// tried acquires a lock once, and releasedAtOnce also releases it.
func tried(l *redlock.Locker) error {
	_, err := l.TryAcquire(bg, "a", time.Minute)
	return err
}

func releasedAtOnce(l *redlock.Locker) error {
	k, err := l.TryAcquire(bg, "x", time.Minute)
	if err != nil {
		return err
	}
	return k.Release(bg)
}

func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// matches requires that err matches want, and no other of the errors that Diagnose and Admit return.
func matches(t *testing.T, err, want error) {
	t.Helper()
	for _, s := range []error{ErrNotAdmitted, redlock.ErrClosed, redlock.ErrInvalid, context.Canceled, context.DeadlineExceeded} {
		require.Equal(t, s == want, errors.Is(err, s), "%q as %q", err, s) //nolint:errorlint // this compares two sentinels
	}
}
