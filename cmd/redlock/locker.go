package main

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/internal/env"
	"github.com/quorumlock/go-redlock/redlock"
)

// prefix returns the prefix of keys: of --prefix, which may be empty, or else of the variable. Opening a
// Locker checks it.
func (inv *invocation) prefix() string {
	if p := inv.command.Flag("prefix"); p.Changed {
		return p.Value.String()
	}
	return inv.getenv(env.Prefix)
}

// guard returns the maxTTL of --guard, or else of the variable. 0 means no guard.
func (inv *invocation) guard() (time.Duration, error) {
	if g := inv.command.Flag("guard"); g.Changed {
		return env.ParseDuration(g.Value.String())
	}
	return env.ReadGuard(inv.getenv)
}

// open makes a Locker over nodes, with the prefix that was given, and with the guard unless maxTTL is 0.
// Answers count for nodeTimeout.
func (inv *invocation) open(nodes nodeList, maxTTL, nodeTimeout time.Duration, opts ...redlock.Option) (*redlock.Locker, error) {
	opts = append(opts, redlock.WithKeyPrefix(inv.prefix()), redlock.WithNodeTimeout(nodeTimeout))
	if maxTTL != 0 {
		opts = append(opts, redlock.WithRestartGuard(maxTTL))
	}
	if nodes.tls != nil {
		opts = append(opts, redlock.WithTLSConfig(nodes.tls))
	}
	return redlock.Open(nodes.urls, opts...)
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
