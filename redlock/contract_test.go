package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// The files promise_*_test.go are the contract of this library. Each begins with one promise of
// docs/dev/rules.md, and its tests state what follows. They use the public API alone. This file has
// what they share: masters in memory, processes that lock on them, and faults. Time is virtual
// (testing/synctest): it passes only while everything waits.

var bg = context.Background()

// system is a set of masters, and the locks that processes have acquired on them.
type system struct {
	t       *testing.T
	masters []*fakeredis.Master // n1, n2, …
	mu      sync.Mutex          // guards locks
	locks   []*redlock.Lock
}

// onMasters runs f on n empty masters. A goroutine that is left when all is closed fails the test.
func onMasters(t *testing.T, n int, f func(t *testing.T, s *system)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &system{t: t}
		for i := range n {
			m := fakeredis.New(fmt.Sprintf("n%d", i+1))
			t.Cleanup(m.Close)
			s.masters = append(s.masters, m)
		}
		f(t, s)
	})
}

// process is a Locker with connections and a clock of its own, as in another program.
type process struct {
	*redlock.Locker
	s     *system
	clock *clocktest.Skewed
	nodes []*pool.Node
	conns []*fakeredis.Client // its first connection to each master
}

func (s *system) process(opts ...redlock.Option) *process {
	p := &process{s: s, clock: clocktest.NewSkewed(clock.Runtime())}
	for _, m := range s.masters {
		n, err := pool.Open(pool.Config{Name: m.Name(), Address: m.Addr(), Dial: m.Dial, Clock: p.clock})
		require.NoError(s.t, err)
		p.nodes = append(p.nodes, n)
	}
	var err error
	p.Locker, err = redlock.New(p.nodes, append([]redlock.Option{redlock.WithClock(p.clock)}, opts...)...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = p.Close(s.t.Context()) }) // that has ended: Close does not wait for holders
	synctest.Wait()                                    // until it is connected
	for _, m := range s.masters {
		all := m.Clients()
		p.conns = append(p.conns, all[len(all)-1])
	}
	return p
}

// conn returns the connection of the process to a master.
func (p *process) conn(n int) *fakeredis.Client { return p.conns[n-1] }

// take acquires a lock. It returns when all masters have executed what they were sent.
func (p *process) take(name string, ttl time.Duration, opts ...redlock.LockOption) *redlock.Lock {
	return p.s.get(p.wants(bg, []string{name}, ttl, opts...))
}

// result is what a call in the background has returned.
type result struct {
	lock *redlock.Lock
	err  error
}

// wants acquires a lock in the background. It returns when the call has its lock or waits.
func (p *process) wants(ctx context.Context, names []string, ttl time.Duration, opts ...redlock.LockOption) <-chan result {
	done := make(chan result, 1)
	go func() {
		lock, err := p.AcquireAll(ctx, names, ttl, opts...)
		if err == nil {
			p.s.alone(lock)
		}
		done <- result{lock, err}
	}()
	synctest.Wait()
	return done
}

// get waits for the lock of a call in the background.
func (s *system) get(done <-chan result) *redlock.Lock {
	r := <-done
	require.NoError(s.t, r.err)
	synctest.Wait()
	return r.lock
}

// alone fails the test if an earlier lock on one of the names is valid. It checks what wants acquires.
func (s *system) alone(lock *redlock.Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, earlier := range s.locks {
		for _, name := range lock.Names() {
			if earlier.Remaining() > 0 && slices.Contains(earlier.Names(), name) {
				s.t.Errorf("two locks are valid: %v and %v", earlier, lock)
			}
		}
	}
	s.locks = append(s.locks, lock)
}

// pass lets time pass, and returns when everything that was due has happened.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// elapsed returns how long f takes.
func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// Masters are numbered from 1. Functions on masters concern all if they are given no number.

func (s *system) each(nodes []int, f func(m *fakeredis.Master)) {
	for i, m := range s.masters {
		if len(nodes) == 0 || slices.Contains(nodes, i+1) {
			f(m)
		}
	}
}

// kill ends connections, and dials fail. What arrives during freeze is executed after heal.
func (s *system) kill(nodes ...int)   { s.each(nodes, (*fakeredis.Master).Stop) }
func (s *system) freeze(nodes ...int) { s.each(nodes, (*fakeredis.Master).Freeze) }
func (s *system) slow(by time.Duration, nodes ...int) {
	s.each(nodes, func(m *fakeredis.Master) { m.SetDelay(by) })
}

func (s *system) restart(nodes ...int) {
	s.each(nodes, func(m *fakeredis.Master) { _ = m.Restart(false) })
}

// lockCommands are the commands by which locks are acquired, extended and released.
var lockCommands = []string{"SET", "EVAL", "EVALSHA"}

// refuse makes masters answer these commands by an error.
func (s *system) refuse(text string, nodes ...int) {
	s.each(nodes, func(m *fakeredis.Master) {
		for _, name := range lockCommands {
			m.FailWith(name, text)
		}
	})
}

// heal ends the faults above. A master that was killed has kept its keys.
func (s *system) heal(nodes ...int) {
	s.slow(0, nodes...)
	s.refuse("", nodes...)
	s.each(nodes, func(m *fakeredis.Master) {
		m.Unfreeze()
		if !m.Up() {
			require.NoError(s.t, m.Restart(true))
		}
	})
	synctest.Wait()
}

// before calls f when a master is about to execute the k-th command of locks from now on.
func (s *system) before(n, k int, f func()) {
	var seen atomic.Int32
	s.masters[n-1].Hook(func(_ int64, name string, _ []string) (string, bool) {
		if slices.Contains(lockCommands, name) && int(seen.Add(1)) == k {
			f()
		}
		return "", false
	})
}

// sent lists the commands of these names, or all commands, that a master has executed, or all for 0.
func (s *system) sent(n int, names ...string) (list [][]string) {
	synctest.Wait()
	for i, m := range s.masters {
		for _, e := range m.Log() {
			if (n == 0 || n == i+1) && (len(names) == 0 || slices.Contains(names, e.Name)) {
				list = append(list, append([]string{e.Name}, e.Args...))
			}
		}
	}
	return list
}

// forget begins to list commands anew.
func (s *system) forget() { synctest.Wait(); s.each(nil, (*fakeredis.Master).ForgetLog) }

// set gives masters a key, as another client would. A TTL of 0 is none.
func (s *system) set(key, value string, ttl time.Duration, nodes ...int) {
	s.each(nodes, func(m *fakeredis.Master) { m.Set(key, value, ttl) })
}

func (s *system) del(key string, nodes ...int) {
	s.each(nodes, func(m *fakeredis.Master) { m.Del(key) })
}

// having lists the masters that have a key: [1 3] for n1 and n3.
func (s *system) having(key string) (nodes []int) {
	for _, found := range s.left() {
		if found[2:] == ": "+key {
			nodes = append(nodes, int(found[1]-'0'))
		}
	}
	return nodes
}

// left lists the keys of locks on all masters: [n1: x, n2: x].
func (s *system) left() (keys []string) {
	synctest.Wait()
	for _, m := range s.masters {
		for _, key := range m.Keys() {
			if !strings.HasPrefix(key, "redlock:") {
				keys = append(keys, m.Name()+": "+key)
			}
		}
	}
	return keys
}
