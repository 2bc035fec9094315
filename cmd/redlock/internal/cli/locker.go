package cli

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/env"
	"github.com/quorumlock/go-redlock/redlock"
)

// Prefix returns the prefix of keys: of --prefix, which may be empty, or else of the variable. Opening a
// Locker checks it.
func (inv *Invocation) Prefix() string {
	if p := inv.Command.Flag("prefix"); p.Changed {
		return p.Value.String()
	}
	return inv.Getenv(env.Prefix)
}

// MaxTTL returns the maxTTL of --guard, or else of the variable. 0 means no guard.
func (inv *Invocation) MaxTTL() (time.Duration, error) {
	if g := inv.Command.Flag("guard"); g.Changed {
		return env.ParseDuration(g.Value.String())
	}
	return env.ReadGuard(inv.Getenv)
}

// Open makes a Locker over nodes, with the prefix that was given, and with the guard unless maxTTL is 0.
// Answers count for nodeTimeout.
func (inv *Invocation) Open(nodes NodeList, maxTTL, nodeTimeout time.Duration, opts ...redlock.Option) (*redlock.Locker, error) {
	opts = append(opts, redlock.WithKeyPrefix(inv.Prefix()), redlock.WithNodeTimeout(nodeTimeout))
	if maxTTL != 0 {
		opts = append(opts, redlock.WithRestartGuard(maxTTL))
	}
	if nodes.TLS != nil {
		opts = append(opts, redlock.WithTLSConfig(nodes.TLS))
	}
	return redlock.Open(nodes.URLs, opts...)
}

// NodeTimeout is how long answers count in what is asked about a lock of this TTL. It
// leaves time for several attempts to extend it, as the library's default does.
func NodeTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/4, time.Millisecond), ColdTimeout)
}
