package reply

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
)

func newCommand(fill func(r *command.Request)) *command.Command {
	c := &command.Command{Request: &command.Request{}}
	fill(c.Request)
	return c
}

func terms(token string, keys []string) *command.LockArgs {
	var t command.LockArgs
	t.Set(keys, token)
	return &t
}

func acquiring(token string, ttl time.Duration, keys ...string) *command.Command {
	return newCommand(func(r *command.Request) { command.NewAcquire(r, terms(token, keys), ttl, time.Hour) })
}

func extending(token string, ttl time.Duration, keys ...string) *command.Command {
	return newCommand(func(r *command.Request) { command.NewExtend(r, terms(token, keys), ttl, time.Hour, 0) })
}

func releasing(token string, keys ...string) *command.Command {
	return newCommand(func(r *command.Request) { command.NewRelease(r, terms(token, keys)) })
}

func shortening(token string, left time.Duration, keys ...string) *command.Command {
	return newCommand(func(r *command.Request) { command.NewShorten(r, terms(token, keys), left, time.Hour) })
}

func inspecting(keys ...string) *command.Command {
	return newCommand(func(r *command.Request) { command.NewInspect(r, terms("", keys)) })
}

func pinging() *command.Command { return newCommand(command.NewPing) }

// aHint is a client's time in 2026.
const aHint = int64(1_790_000_000_000_000)

func counting(token string, keys []string) *command.LockArgs {
	t := terms(token, keys)
	t.SetCounters(false)
	return t
}

func fencing(token string, ttl time.Duration, keys ...string) *command.Command {
	return newCommand(func(r *command.Request) {
		command.NewFencedAcquire(r, counting(token, keys), ttl, time.Hour, aHint, time.Second)
	})
}

func confirming(token string, keys ...string) *command.Command {
	return newCommand(func(r *command.Request) { command.NewConfirm(r, counting(token, keys), aHint) })
}

// oneOfEach returns a call of each operation: of one key, and of two where that is another command.
func oneOfEach() map[string]*command.Command {
	return map[string]*command.Command{
		"SET":     acquiring("A", time.Second, "k"),
		"acquire": acquiring("A", time.Second, "k", "l"),
		"extend":  extending("A", time.Second, "k"),
		"release": releasing("A", "k", "l"),
		"shorten": shortening("A", time.Second, "k", "l"),
		"inspect": inspecting("k"),
		"ping":    pinging(),
		"poll":    newCommand(func(r *command.Request) { command.NewPoll(r, terms("", []string{"k"})) }),
		"fence":   fencing("A", time.Second, "k"),
		"confirm": confirming("A", "k", "l"),
	}
}
