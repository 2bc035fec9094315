package redlock

import (
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// take acquires a lock, and returns when every node has answered.
func take(t *testing.T, l *Locker, name string, ttl time.Duration, opts ...LockOption) *Lock {
	t.Helper()
	k := takeAtOnce(t, l, name, ttl, opts...)
	bedOf(l).answered()
	return k
}

// takeAtOnce acquires a lock, and spends no time on a late master: for tests that count the time from
// then on.
func takeAtOnce(t *testing.T, l *Locker, name string, ttl time.Duration, opts ...LockOption) *Lock {
	t.Helper()
	names := []string{name}
	if fl := bedOf(l); fl != nil && fl.two {
		names = append(names, "also "+name)
	}
	return takeAllAtOnce(t, l, names, ttl, opts...)
}

// pass lets d of the bubble's time pass, and waits until what is due has happened.
func pass(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

// requireTTL requires that a master was told that TTL of a key, at some instant since began.
func requireTTL(t *testing.T, m *fakeredis.Master, key string, ttl time.Duration, began time.Time) {
	t.Helper()
	left := m.TTL(key)
	require.LessOrEqual(t, left, ttl, "%q on %s", key, m.Name())
	require.GreaterOrEqual(t, left, ttl-time.Since(began), "%q on %s", key, m.Name())
}

// asked lists the operations on locks that a master executed, in order.
func asked(m *fakeredis.Master) []command.Op {
	byName := map[string]command.Op{
		"acquire": command.Acquire, "extend": command.Extend, "release": command.Release,
		"shorten": command.Shorten, "inspect": command.Inspect,
	}
	var list []command.Op
	for _, e := range m.Log() {
		if e.Name == "SET" {
			list = append(list, command.Acquire)
		}
		for _, s := range command.Scripts() {
			if e.Name == "EVALSHA" && e.Args[0] == s.Hash || e.Name == "EVAL" && e.Args[0] == s.Source {
				list = append(list, byName[scriptKind(s)])
			}
		}
	}
	return list
}

// orders returns how many commands of ops all masters together were sent.
func (fl *testbed) orders(ops ...command.Op) int {
	n := 0
	for _, m := range fl.masters {
		for _, op := range asked(m) {
			if slices.Contains(ops, op) {
				n++
			}
		}
	}
	return n
}

// failing makes extensions fail on some masters, as on a server that is loading. The returned
// function ends it.
func failing(masters ...*fakeredis.Master) (heal func()) {
	for _, m := range masters {
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			return "LOADING Redis is loading the dataset in memory", isScript(command.Extend, cmd, args)
		})
	}
	return func() {
		for _, m := range masters {
			m.Hook(nil)
		}
	}
}

// isScript reports whether a command calls an operation's script.
func isScript(op command.Op, cmd string, args []string) bool {
	for _, s := range command.Scripts() {
		if scriptKind(s) == op.String() && (cmd == "EVALSHA" && args[0] == s.Hash || cmd == "EVAL" && args[0] == s.Source) {
			return true
		}
	}
	return false
}

// inFakes runs f on n fake nodes in virtual time.
func inFakes(t *testing.T, n int, f func(t *testing.T, nodes []*fakeNode, l *Locker), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, n, append([]Option{WithClock(clock.Runtime())}, opts...)...)
		f(t, nodes, l)
	})
}

// answerTo scripts one operation's answer on a fake node.
func answerTo(op command.Op, rep command.Reply) func(*fakeNode, *command.Command) bool {
	return func(_ *fakeNode, c *command.Command) bool {
		if c.Op == op {
			c.MarkSent()
			c.Answer(rep)
		}
		return c.Op == op
	}
}

// silent makes a node hold back the answers of one operation. The returned function sends them.
func silent(n *fakeNode, op command.Op) (answerLate func()) {
	var kept []*command.Command
	n.script = func(_ *fakeNode, c *command.Command) bool {
		if c.Op == op {
			c.MarkSent()
			kept = append(kept, c)
		}
		return c.Op == op
	}
	return func() {
		for _, c := range kept {
			c.Answer(n.execute(c))
		}
		kept = nil
	}
}

// gatedClock blocks the goroutine that makes the n-th reading, so that a test can check what others
// see meanwhile. Its timers are those of the clock below. The timers read it under a mutex that all
// goroutines need, so they pass the gate and are not counted.
type gatedClock struct {
	clock.Clock
	left    atomic.Int64 // readings until the gate; negative: open
	reached chan struct{}
	open    chan struct{}
}

// gate closes the n-th reading from now on, from 1.
func (c *gatedClock) gate(n int64) {
	c.reached, c.open = make(chan struct{}), make(chan struct{})
	c.left.Store(n)
}

func (c *gatedClock) Now() clock.Instant {
	_, reader, _, _ := runtime.Caller(1)
	if !strings.Contains(reader, "/internal/timer/") && c.left.Add(-1) == 0 {
		close(c.reached)
		<-c.open
	}
	return c.Clock.Now()
}

// logged is a log for tests.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logged) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func (b *logged) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(strings.Lines(b.text.String()))
}
