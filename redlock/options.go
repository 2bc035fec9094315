package redlock

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/internal/wallclock"
)

// settingsOf returns the defaults with the options applied. Its error names all that is out of bounds.
func settingsOf(opts []Option) (settings, error) {
	s := settings{
		drift:   quorum.DefaultDrift(),
		backoff: waiting.Backoff{Min: time.Millisecond, Max: 100 * time.Millisecond},
		maxTTL:  DefaultMaxTTL,
		owner:   command.ProcessLabel(os.Getpid()),
		clock:   clock.System(),
		wall:    wallclock.Micros,
	}
	for _, o := range opts {
		if o != nil {
			o.apply(&s)
		}
	}
	return s, joinInvalid(s.resolve(), s.check())
}

// WithKeyPrefix prepends prefix to every name to form its key. Clients exclude each other only if
// they use the same prefix. The prefix has at most 512 bytes. A key, which is the prefix and the
// name, must not begin with "redlock:". The default is no prefix, as in other Redlock clients.
func WithKeyPrefix(prefix string) Option {
	return option(func(s *settings) { s.prefix = prefix })
}

// WithOwner puts a label before the random part of every token, so that operators see the holder of
// a lock. The label has at most 64 bytes of printable characters, without a colon or a space.
// The default is the host's name and the process ID: host/pid. With an empty label tokens have none, and
// other clients learn only the ID of the lock.
func WithOwner(label string) Option { return option(func(s *settings) { s.owner = label }) }

// WithNodeTimeout sets how long a node's answer counts, from when the request was submitted. A
// later answer is not a vote, but the connection stays open. d is at least 1 ms. The validity of a
// TTL after drift must be more than d. The default is the smaller of 500 ms and a quarter of the
// TTL, and 500 ms for requests without a TTL (Healthy, Inspect, doctor.Diagnose).
func WithNodeTimeout(d time.Duration) Option {
	return option(func(s *settings) { s.nodeTimeout = cmp.Or(d, -1) }) // 0 means "not given" in settings
}

// WithDrift sets the allowance for clocks: what a node's clock may gain on a client's clock during a TTL, by
// its rate and by steps forward together. It shortens every validity by factor × TTL + floor. factor is from
// 0 to 0.5, and floor is not negative. The defaults are 0.01 and 2 ms. The validity is also shortened by 5 ms
// for late timers, or by a twentieth of a TTL below 100 ms.
func WithDrift(factor float64, floor time.Duration) Option {
	return option(func(s *settings) { s.drift = quorum.Drift{Factor: factor, Floor: int64(floor)} })
}

// WithMaxTTL sets the longest TTL that this Locker gives to a key: whole milliseconds, from 10 ms
// to 365 days. The default is 24 h.
func WithMaxTTL(d time.Duration) Option {
	return option(func(s *settings) { s.maxTTL, s.maxTTLSet = d, true })
}

// WithFencing gives every lock a fencing token: see Lock.Fence. If the nodes' counters agree, it
// costs only a longer script. Otherwise it costs one more round trip. The counters contain the
// time, so they usually agree.
//
// Locks with a name in common have different tokens. A token is larger than that of every lock that
// was acquired before any node executed this one's acquire. This holds if the nodes' counters are
// durable (appendfsync always), whatever happens to the locks, unless a node's clock is set forward
// by a week. It also holds with the restart guard, while all that exclusion assumes there holds, no
// Admit skipped a wait, a name is granted less than once a microsecond, no node's clock is set back,
// and the nodes' clocks differ by less than maxTTL less 2.001 s. Below a maxTTL of 4 s the bound is
// half of maxTTL, less 1 ms. Otherwise it holds as long as no node forgets its counters.
func WithFencing() Option { return option(func(s *settings) { s.fencing = true }) }

// WithRestartGuard stops nodes that may have forgotten locks from voting until all those locks have
// expired. A node may have forgotten locks after a restart (with or without persisted data), after
// FLUSHALL, FLUSHDB or SWAPDB, or after its promotion from a replica. Such a node is quarantined
// for maxTTL.
//
// maxTTL is the bound of every TTL: whole milliseconds, from 10 ms, as in WithMaxTTL. maxTTL and
// the list of the nodes' names must be the same for all clients of the nodes. The guard's state is
// on each node, in the key redlock:guard, so it also covers clients that never used the node before.
//
// The guard adds one GET to each script that creates a key. In a new deployment the first
// acquisition starts a quarantine of maxTTL on every node: see doctor.Admit. Meanwhile acquisitions
// wait, or fail with ErrQuarantined. Clients without the guard do not check it. From their next
// connection on they refuse a guarded node, unless WithUnsafeNodes names it. Until the last of them
// has stopped, locks are mutually exclusive but not guarded.
func WithRestartGuard(maxTTL time.Duration) Option {
	return option(func(s *settings) { s.guarded, s.guardTTL = true, maxTTL })
}

// WithRepair restores the copy of a held lock on a node that has lost it. This happens after an
// extension that the majority confirmed, once the node votes again. An automatically extended lock
// thus survives the restart of all its nodes, one after another, each after the quarantine of the
// one before. WithRepair needs WithRestartGuard. Otherwise the repaired copy could replace a grant
// that the node has forgotten.
func WithRepair() Option { return option(func(s *settings) { s.repair = true }) }

// WithClock replaces the clock, for tests. The default is clock.System, which counts the time
// during which the machine is suspended.
func WithClock(c clock.Clock) Option { return option(func(s *settings) { s.clock = c }) }

// WithTrace calls the hooks of t. If it is given several times, the hooks of each are called, in
// that order. By default there is no trace, which costs nothing.
func WithTrace(t *Trace) Option {
	return option(func(s *settings) {
		if t != nil {
			s.traces = append(s.traces, t)
		}
	})
}

// WithLogger sets a logger for what an operator should know. Single acquisitions and attempts are
// not logged: see Trace. Passwords and complete tokens are never logged.
//
//   - Error: a hook panicked or hooks fell behind, which is a defect of the program.
//   - Warn: a lock ended while it was held (LostError); a release found the lock lost or could not be
//     confirmed; a node no longer has the keys of held locks, or does not extend them; this process did
//     not run for more than a quarter of the TTL of a lock; no quorum votes; a node does not vote
//     because of a failed check or a quarantine; a user has no right to announcements of releases
//     (Redis 7 and later), once for each node. For nodes made by Open also: a dial failed, or a
//     connection ended while a reply was due; without WithRestartGuard, a node's server keeps no append-only
//     file, and so forgets locks in a restart, once for each node.
//   - Info: the end of such a state of a node or of the quorum. For nodes made by Open also: a
//     connection was established or closed, also by a server that closes idle ones.
//
// A lasting state is logged when it begins and when it ends. The default is no logger; panics of
// hooks, and that hooks fell behind, then go to slog.Default.
func WithLogger(l *slog.Logger) Option { return option(func(s *settings) { s.logger = l }) }

// WithDefaults gives every acquisition of the Locker these options. The options of Do and Lead, such as
// the automatic extension, come after them, and the options of the call come last. Without switches
// them off for a call. Shares take none of them but WithShared itself, and Resume takes neither
// WithMinHold nor WithShared. If it is given several times, the options add up.
func WithDefaults(opts ...LockOption) Option {
	return option(func(s *settings) { s.lockDefaults = append(s.lockDefaults, opts...) })
}

// WithUnsafeNodes names nodes that vote in spite of failed checks: a replica, a server that evicts
// keys, one that does not answer INFO, or one that is the same server as another node. The lock's
// assumptions do not hold on these nodes. Mutual exclusion then depends on what you know about
// them. Each name must be the name of a node. The default is none.
func WithUnsafeNodes(names ...string) Option {
	return option(func(s *settings) { s.unsafe = append(s.unsafe, names...) })
}

// WithTLSConfig sets the TLS configuration of the nodes that Open makes from rediss:// URLs, for a
// private certificate authority or client certificates. config is called at every dial, possibly
// concurrently, like pool.Config.TLS. Open returns ErrInvalid if no URL has the scheme rediss. New
// ignores the option, because its nodes have their own configurations. The default is the system's
// certificate authorities.
func WithTLSConfig(config func(context.Context) (*tls.Config, error)) Option {
	return option(func(s *settings) { s.tls = config })
}
