package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// longTTL is the TTL of locks that must not expire in a test, and mostTTL is the bound in requests.
const (
	longTTL = 30 * time.Second
	mostTTL = time.Hour
)

// newConfig returns the settings of a server of a Locker with the restart guard.
func newConfig() *Config {
	c := clock.Runtime()
	settings := &transport.Settings{
		Network: "tcp", DialTimeout: time.Second, HardTimeout: time.Second, RedialMin: 20 * time.Millisecond, RedialMax: 2 * time.Second, Clock: c,
	}
	cfg := &Config{
		Shared: NewShared(c, &Shared{
			Name: "n1", Queue: 10_000, Log: func(string, error) {},
			Quarantined: func(left time.Duration) error { return fmt.Errorf("quarantined for %v", left) },
		}),
		Label: "n1", Settings: settings, Dialer: settings,
		MayVote: func(string) error { return nil },
		Faults:  func(f command.Facts) []command.Fault { return session.Faults("n1", 0, f) },
		Ended:   func() {},
	}
	cfg.Join(&command.Membership{Clock: c, Servers: command.NewServers(), Guard: guard.New(longTTL, []string{"n1"})})
	return cfg
}

// idle returns the link of a server that is never dialled. Nothing reads or writes it.
func idle() *link {
	return newLink(New(newConfig()), &transport.Conn{}, session.Facts{ClientID: 1, Facts: sound()})
}

// begun is idle with a standing that the connection has begun.
func begun(t *testing.T) *link {
	t.Helper()
	l := idle()
	l.server.standing.begin(l.conn, l.facts)
	t.Cleanup(l.server.standing.end)
	return l
}

// inBubble runs a test on a server that is connected, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, m *fakeredis.Master, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		cfg := newConfig()
		cfg.Settings.Address, cfg.Settings.Connect = m.Addr(), m.Dial
		s := New(cfg)
		s.Start()
		defer s.Close()
		synctest.Wait()
		f(t, m, s)
	})
}

// sound are the facts of a healthy master.
func sound() command.Facts {
	return command.Facts{
		RunID: "r", Version: "7.0.15", Mode: "standalone", Role: "master", Eviction: "noeviction",
		ReplID2: "0000000000000000000000000000000000000000",
	}
}

// enqueue queues commands. The writer hears nothing of it.
func enqueue(s *Server, all ...*command.Command) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.waiting = append(s.queue.waiting, all...)
}

// made makes a command by one of the constructors of package command.
func made(fill func(r *command.Request, t *command.LockArgs), token string, keys ...string) *command.Command {
	var t command.LockArgs
	t.Set(keys, token)
	c := &command.Command{Request: &command.Request{}}
	fill(c.Request, &t)
	return c
}

func acquiring(token string, keys ...string) *command.Command {
	return made(func(r *command.Request, t *command.LockArgs) { command.NewAcquire(r, t, longTTL, mostTTL) }, token, keys...)
}

// guarded is an acquire under the restart guard.
func guarded(token, key string) *command.Command {
	return made(func(r *command.Request, t *command.LockArgs) {
		t.UnderGuard = true
		command.NewAcquire(r, t, longTTL, mostTTL)
	}, token, key)
}

// fencing is an acquire with fencing, which may be merged.
func fencing(token, key string) *command.Command {
	return made(func(r *command.Request, t *command.LockArgs) {
		t.SetCounters(false)
		command.NewFencedAcquire(r, t, longTTL, mostTTL, 1, time.Second)
	}, token, key)
}

func releasing(token string, keys ...string) *command.Command {
	return made(command.NewRelease, token, keys...)
}

// announcing is an announced release, which may be merged.
func announcing(token, key string) *command.Command {
	return made(func(r *command.Request, t *command.LockArgs) { command.NewAnnouncingRelease(r, t, 0, 0) }, token, key)
}

func inspecting(keys ...string) *command.Command { return made(command.NewInspect, "", keys...) }

func pinging() *command.Command {
	return made(func(r *command.Request, _ *command.LockArgs) { command.NewPing(r) }, "")
}

// answers receives answers.
type answers chan command.Reply

func (a answers) Answer(_ *command.Command, r command.Reply) { a <- r }

// calling is called with an answer.
type calling func(r command.Reply)

func (f calling) Answer(_ *command.Command, r command.Reply) { f(r) }
