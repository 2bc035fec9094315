// Package nodetest has commands for nodes, and what they did, for tests of package pool and of the kinds of nodes.
package nodetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
)

// LongTTL is the TTL of locks that must not expire in a test, and MostTTL is the bound in requests.
const (
	LongTTL = 30 * time.Second
	MostTTL = time.Hour
)

// Node is a *pool.Node.
type Node interface{ Name() string }

// Now returns the instant by the node's clock.
func Now(n Node) clock.Instant {
	b, _ := node.Of(n)
	return b.Settings.Clock.Now()
}

// Member returns what the node knows of its Locker.
func Member(n Node) *command.Membership {
	b, _ := node.Of(n)
	return b.Member()
}

// Call is a command and its answer.
type Call struct {
	command.Command
	Req     command.Request
	Answers chan command.Reply // at most 8 of them; 160 of an undo
}

// Answer receives the answer.
func (c *Call) Answer(_ *command.Command, r command.Reply) { c.Answers <- r }

// NewCall makes a call of the request that fill fills in.
func NewCall(fill func(r *command.Request)) *Call {
	c := &Call{}
	fill(&c.Req)
	most := 8
	if c.Req.Op.Undoes() {
		most = 160 // it may be answered as pending many times
	}
	c.Request, c.To, c.Answers = &c.Req, c, make(chan command.Reply, most)
	return c
}

// Terms returns the keys and the token of a request.
func Terms(token string, keys []string) *command.LockArgs {
	var t command.LockArgs
	t.Set(keys, token)
	return &t
}

// Acquiring returns an acquire.
func Acquiring(token string, ttl time.Duration, keys ...string) *Call {
	return NewCall(func(r *command.Request) { command.NewAcquire(r, Terms(token, keys), ttl, MostTTL) })
}

// Extending returns an extend.
func Extending(token string, ttl time.Duration, keys ...string) *Call {
	return NewCall(func(r *command.Request) { command.NewExtend(r, Terms(token, keys), ttl, MostTTL, 0) })
}

// Releasing returns a release.
func Releasing(token string, keys ...string) *Call {
	return NewCall(func(r *command.Request) { command.NewRelease(r, Terms(token, keys)) })
}

// Shortening returns a release that leaves the keys for a while.
func Shortening(token string, left time.Duration, keys ...string) *Call {
	return NewCall(func(r *command.Request) { command.NewShorten(r, Terms(token, keys), left, MostTTL) })
}

// Inspecting returns an inspect.
func Inspecting(keys ...string) *Call {
	return NewCall(func(r *command.Request) { command.NewInspect(r, Terms("", keys)) })
}

// Pinging returns a ping.
func Pinging() *Call { return NewCall(command.NewPing) }

// Hint is a client's time in 2026.
const Hint = int64(1_790_000_000_000_000)

// counting is Terms with fence counters.
func counting(token string, keys []string) *command.LockArgs {
	t := Terms(token, keys)
	t.SetCounters(false)
	return t
}

// Fencing returns an acquire with a fencing token.
func Fencing(token string, ttl time.Duration, keys ...string) *Call {
	return NewCall(func(r *command.Request) {
		command.NewFencedAcquire(r, counting(token, keys), ttl, MostTTL, Hint, time.Second)
	})
}

// Confirming returns a confirm.
func Confirming(token string, keys ...string) *Call {
	return NewCall(func(r *command.Request) { command.NewConfirm(r, counting(token, keys), Hint) })
}

// OneOfEach returns a call of each operation: of one key, and of two where that is another command.
func OneOfEach() map[string]*Call {
	return map[string]*Call{
		"SET":     Acquiring("A", time.Second, "k"),
		"acquire": Acquiring("A", time.Second, "k", "l"),
		"extend":  Extending("A", time.Second, "k"),
		"release": Releasing("A", "k", "l"),
		"shorten": Shortening("A", time.Second, "k", "l"),
		"inspect": Inspecting("k"),
		"ping":    Pinging(),
		"fence":   Fencing("A", time.Second, "k"),
		"confirm": Confirming("A", "k", "l"),
	}
}

// Join gives a node to a Locker, also one that has another Locker.
func Join(n Node, m command.Membership) {
	b, _ := node.Of(n)
	m.Clock = b.Settings.Clock
	if m.Servers == nil {
		m.Servers = command.NewServers()
	}
	b.Leave()
	b.Join(&m)
}

// Except says whether a node votes although its server is unfit.
func Except(n Node, unsafe bool) {
	m := *Member(n)
	m.Unsafe = unsafe
	Join(n, m)
}

// Within gives the command a not-after instant.
func (c *Call) Within(n Node, d time.Duration) *Call {
	c.Req.NotAfter = Now(n).Add(d)
	return c
}

// On submits the command. It receives the answer of a node that does not take it as well. A guarded
// command is that of a Locker with the guard.
func (c *Call) On(n Node) *Call {
	if c.Req.Guarded {
		Guarded(n)
	}
	_, shape := node.Of(n)
	if err := shape.Submit(&c.Command, nil); err != nil {
		c.Command.Answer(command.Reply{Outcome: command.Failed, NotSent: true, Err: err})
	}
	return c
}

// Reply waits for the answer. An answer must never look like the caller's own deadline
// (docs/dev/hazards.md H111).
func (c *Call) Reply(t *testing.T) command.Reply {
	t.Helper()
	select {
	case r := <-c.Answers:
		require.NotErrorIs(t, r.Err, context.DeadlineExceeded)
		require.NotErrorIs(t, r.Err, context.Canceled)
		require.False(t, r.NotSent && r.Outcome != command.Failed, "unsent goes with failed")
		return r
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "no answer", "to %v of %q", c.Req.Op, c.Req.Token())
		return command.Reply{}
	}
}

// Outcome submits the command and waits for its vote.
func (c *Call) Outcome(t *testing.T, n Node) command.Outcome {
	t.Helper()
	return c.On(n).Reply(t).Outcome
}

// Pending reports that the call has no answer.
func (c *Call) Pending() bool { return len(c.Answers) == 0 }

// RequireUnsent asserts that a command was not sent.
func RequireUnsent(t *testing.T, r command.Reply) {
	t.Helper()
	require.Equal(t, command.Failed, r.Outcome, "%v", r.Err)
	require.True(t, r.NotSent)
	require.Error(t, r.Err)
}

// RequireUnfit asserts that the node itself refused, and checks the words of its error.
func RequireUnfit(t *testing.T, r command.Reply, words ...string) {
	t.Helper()
	RequireUnsent(t, r)
	require.ErrorIs(t, r.Err, command.ErrUnfit)
	for _, w := range words {
		require.ErrorContains(t, r.Err, w)
	}
}
