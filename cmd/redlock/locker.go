package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/internal/env"
	"github.com/quorumlock/go-redlock/redlock"
)

// jsonFlag defines --json.
func jsonFlag(f *pflag.FlagSet) *bool {
	return f.Bool("json", false, "print an object for programs (see above)")
}

// prefixFlag defines --prefix, and prefix reads it.
func prefixFlag(f *pflag.FlagSet) *prefixValue {
	p := &prefixValue{}
	f.Var(p, "prefix", "the prefix that makes a `key` of a NAME, the same for all its clients "+
		"(default: $REDLOCK_PREFIX, or none)")
	return p
}

// prefixValue is the value of --prefix. It remembers whether the flag was given, because an empty
// prefix means none.
type prefixValue struct {
	text  string
	given bool
}

func (p *prefixValue) String() string { return p.text }

func (p *prefixValue) Type() string { return "string" }

func (p *prefixValue) Set(text string) error {
	p.text, p.given = text, true
	return nil
}

// prefix is the option: of the flag, or else of the variable. Opening a Locker checks it.
func (inv *invocation) prefix(p *prefixValue) redlock.Option {
	return redlock.WithKeyPrefix(inv.prefixText(p))
}

func (inv *invocation) prefixText(p *prefixValue) string {
	if p.given {
		return p.text
	}
	return inv.getenv(env.Prefix)
}

// guardFlag defines --guard, and guard reads it.
func guardFlag(f *pflag.FlagSet) *guardValue {
	g := &guardValue{}
	f.Var(g, "guard", "the restart guard's `maxTTL`, the same for all clients: a node that may have "+
		"forgotten locks does not vote for that long; 0: no guard (default: $REDLOCK_GUARD, or none)")
	return g
}

// guardValue is the value of --guard. It remembers whether the flag was given.
type guardValue struct{ text string }

func (g *guardValue) String() string { return g.text }

func (g *guardValue) Type() string { return "duration" }

func (g *guardValue) Set(text string) error {
	g.text = text
	_, err := env.ParseDuration(text)
	return err
}

// guard is the maxTTL: the flag, or else the variable. 0 means no guard.
func (inv *invocation) guard(given *guardValue) (time.Duration, error) {
	if text := given.String(); text != "" {
		return env.ParseDuration(text)
	}
	return env.ReadGuard(inv.getenv)
}

// guarding returns the option of the guard, and none for a maxTTL of 0.
func guarding(maxTTL time.Duration) []redlock.Option {
	if maxTTL == 0 {
		return nil
	}
	return []redlock.Option{redlock.WithRestartGuard(maxTTL)}
}

// nodeTimeout is how long answers count in what is asked about a lock of this TTL. It
// leaves time for several attempts to extend it, as the library's default does.
func nodeTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/4, time.Millisecond), coldTimeout)
}

// closeIn closes a Locker unless ctx has ended: Close would then wait for the node timeout.
func closeIn(ctx context.Context, l *redlock.Locker) {
	if ctx.Err() == nil {
		_ = l.Close(ctx)
	}
}

// closeSoon closes a Locker, and waits for its nodes at most for closeTimeout.
func closeSoon(l *redlock.Locker) { closeWithin(l, closeTimeout) }

func closeWithin(l *redlock.Locker, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = l.Close(ctx) // the release has reported what could not be undone
}
