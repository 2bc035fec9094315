package redlock

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/internal/wallclock"
	"github.com/quorumlock/go-redlock/pool"
)

// Bounds and defaults of several settings. MinTTL is the shortest TTL that is accepted.
// DefaultMaxTTL is the longest, unless WithMaxTTL or WithRestartGuard sets another.
const (
	MinTTL         = 10 * time.Millisecond
	DefaultMaxTTL  = 24 * time.Hour
	maxNameLen     = 512
	reservedPrefix = command.Reserved // keys and channels other than locks
	maxNodeTimeout = 500 * time.Millisecond
)

// Option is an option of a Locker. The defaults suit most services. If an option is out of bounds,
// New and Open return an error that matches ErrInvalid and names all such options. A nil Option is
// ignored.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// settings are the options of a Locker, with defaults filled in.
type settings struct {
	prefix      string
	owner       string
	nodeTimeout time.Duration // 0: derived from the TTL
	drift       quorum.Drift
	backoff     waiting.Backoff // tests change it
	maxTTL      time.Duration
	maxTTLSet   bool // WithMaxTTL was given
	fencing     bool
	guarded     bool
	guardTTL    time.Duration
	repair      bool
	clock       clock.Clock
	wall        func() int64 // Unix microseconds
	traces      []*Trace
	logger      *slog.Logger
	unsafe      []string // nodes that vote in spite of failed checks
	tls         func(context.Context) (*tls.Config, error)
	// Before the options of a call.
	lockDefaults []LockOption
}

func defaults() settings {
	return settings{
		drift:   quorum.DefaultDrift(),
		backoff: waiting.Backoff{Min: time.Millisecond, Max: 100 * time.Millisecond},
		maxTTL:  DefaultMaxTTL,
		owner:   command.ProcessLabel(os.Getpid()),
		clock:   clock.System(),
		wall:    wallclock.Micros,
	}
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
	return option(func(s *settings) { s.nodeTimeout = zeroIsInvalid(d) })
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
// hooks then go to slog.Default.
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

// encrypt sets the TLS configuration of a node and of its Sentinels.
func (s *settings) encrypt(cfg *pool.Config) {
	if s.tls == nil {
		return
	}
	cfg.TLS = s.tls
	if cfg.Sentinels != nil {
		cfg.Sentinels.TLS = s.tls
	}
}

// zeroIsInvalid maps 0, which means "not given" in settings, to an invalid value.
func zeroIsInvalid(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func settingsOf(opts []Option) (settings, error) {
	s := defaults()
	for _, o := range opts {
		if o != nil {
			o.apply(&s)
		}
	}
	return s, joinInvalid(s.resolve(), s.check())
}

func (s *settings) check() error {
	const year = 365 * 24 * time.Hour
	return joinInvalid(
		invalidIf(s.clock == nil, "WithClock: the clock is nil"),
		invalidIf(strings.HasPrefix(s.prefix, reservedPrefix), "WithKeyPrefix(%q): not %q", s.prefix, reservedPrefix),
		invalidIf(isQuoted(s.prefix),
			"WithKeyPrefix(%q): it is in quotes, and clients without them have other keys: remove them", s.prefix),
		invalidIf(len(s.prefix) > maxNameLen, "WithKeyPrefix: %d bytes, at most %d", len(s.prefix), maxNameLen),
		invalidIf(!command.ValidLabel(s.owner),
			"WithOwner(%q): at most %d printable bytes without a colon or space", s.owner, command.MaxLabel),
		invalidIf(s.nodeTimeout < 0 || s.nodeTimeout != 0 && s.nodeTimeout < time.Millisecond, "WithNodeTimeout: at least 1ms"),
		invalidIf(!(s.drift.Factor >= 0 && s.drift.Factor <= 0.5) || s.drift.Floor < 0,
			"WithDrift(%v, %v): a factor from 0 to 0.5 and a floor that is not negative", s.drift.Factor, time.Duration(s.drift.Floor)),
		gather(nil, s.lockDefaults).err,
		invalidIf(s.maxTTL < MinTTL || s.maxTTL > year || s.maxTTL%time.Millisecond != 0,
			"%s(%v): whole milliseconds from %v to %v", s.maxTTLOption(), s.maxTTL, MinTTL, year),
	)
}

// isQuoted reports whether a text begins and ends with the same quote.
func isQuoted(text string) bool {
	return len(text) > 1 && strings.ContainsAny(text[:1], "\"'`") && text[0] == text[len(text)-1]
}

// maxTTLOption returns the name of the option that has set maxTTL.
func (s *settings) maxTTLOption() string {
	if s.guarded {
		return "WithRestartGuard"
	}
	return "WithMaxTTL"
}

func invalidIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return invalid(format, args...)
}

// votesUnfit reports whether a node votes although its server is unfit.
func (s *settings) votesUnfit(node string) bool {
	return slices.Contains(s.unsafe, node)
}

// checkUnsafe rejects names that belong to no node. Otherwise a misspelt name would look like an
// exception that is in effect.
func (s *settings) checkUnsafe(nodes []string) error {
	var unknown []string
	for _, name := range s.unsafe {
		if !slices.Contains(nodes, name) {
			unknown = append(unknown, name)
		}
	}
	return invalidIf(unknown != nil, "WithUnsafeNodes: no node %s; the nodes are %s", quoted(unknown), quoted(nodes))
}

// checkTTL checks the bounds of a TTL of a lock key.
func (s *settings) checkTTL(what string, ttl time.Duration) error {
	switch {
	case ttl < MinTTL || ttl > s.maxTTL:
		return invalid("%s of %v: must be from %v to %v (%s)", what, ttl, MinTTL, s.maxTTL, s.maxTTLOption())
	case ttl%time.Millisecond != 0:
		return invalid("%s of %v: must be in whole milliseconds", what, ttl)
	case s.validity(ttl) <= s.timeout(ttl):
		return invalid("%s of %v: leaves %v after the margins for drift and late timers, must be more than the node timeout of %v (WithNodeTimeout)",
			what, ttl, s.validity(ttl), s.timeout(ttl))
	}
	return nil
}

// validity returns how long a lock of this TTL is valid for its holder.
func (s *settings) validity(ttl time.Duration) time.Duration {
	return quorum.Until(time.Duration(0), ttl, s.drift)
}

// timeout returns how long answers count in a round about a lock of this TTL.
func (s *settings) timeout(ttl time.Duration) time.Duration {
	if s.nodeTimeout > 0 {
		return s.nodeTimeout
	}
	return min(maxNodeTimeout, ttl/4)
}

// checkName checks the bounds of a name and of its key.
func (s *settings) checkName(name string) error {
	switch {
	case name == "":
		return invalid("the name is empty")
	case len(name) > maxNameLen:
		return invalid("name of %d bytes: at most %d", len(name), maxNameLen)
	case strings.HasPrefix(s.prefix+name, reservedPrefix):
		return invalid("the key %q is in the reserved namespace %q", s.prefix+name, reservedPrefix)
	}
	return nil
}
