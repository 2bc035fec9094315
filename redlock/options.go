package redlock

import (
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Bounds and defaults that several settings share: the shortest TTL that is accepted, and
// the longest one unless WithMaxTTL or WithRestartGuard says otherwise.
const (
	MinTTL         = 10 * time.Millisecond
	DefaultMaxTTL  = 24 * time.Hour
	maxNameLen     = 512
	maxOwnerLen    = 64
	reservedPrefix = wire.Reserved // keys and channels that are not locks
	maxNodeTimeout = 500 * time.Millisecond
)

// Option changes a Locker. The zero set of options is right for most. One that is out of
// its bounds makes New and Open fail with ErrInvalid, whose error names all such options. A nil
// Option is skipped.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// settings are a Locker's options with their defaults in place.
type settings struct {
	prefix      string
	owner       string
	nodeTimeout time.Duration // 0: from the TTL
	drift       quorum.Drift
	minBackoff  time.Duration
	maxBackoff  time.Duration
	maxTTL      time.Duration
	maxTTLSet   bool // by WithMaxTTL
	fencing     bool
	guarded     bool
	guardTTL    time.Duration
	repair      bool
	clock       clock.Clock
	wall        func() int64 // Unix microseconds
	traces      []*Trace
	logger      *slog.Logger
	unsafe      []string // nodes that vote whatever is found of them
	unchecked   bool     // all do
	tls         func(context.Context) (*tls.Config, error)
}

func defaults() settings {
	return settings{
		drift:      quorum.Drift{Factor: 0.01, Floor: int64(2 * time.Millisecond)},
		minBackoff: time.Millisecond,
		maxBackoff: 100 * time.Millisecond,
		maxTTL:     DefaultMaxTTL,
		clock:      clock.System(),
		wall:       clock.Wall,
	}
}

// WithKeyPrefix puts a prefix before every name to make its key. Clients exclude
// each other only with the same prefix. At most 512 bytes; a key, prefix and name, may not
// begin with "redlock:". Defaults to none, as other Redlock clients have it.
func WithKeyPrefix(prefix string) Option {
	return option(func(s *settings) { s.prefix = prefix })
}

// WithOwner puts a label before the random part of every token, so that people
// can see who holds a lock. At most 64 bytes, printable, without a colon or space.
// Defaults to none.
func WithOwner(label string) Option { return option(func(s *settings) { s.owner = label }) }

// WithNodeTimeout is how long a node's answer counts, from when it was asked. A later one
// is no vote, but the connection lives on. At least 1 ms, and a TTL must be worth more than
// it after drift. Defaults to the smaller of 500 ms and a quarter of the TTL; for questions
// without a TTL (Healthy, Inspect, Diagnose) to 500 ms.
func WithNodeTimeout(d time.Duration) Option {
	return option(func(s *settings) { s.nodeTimeout = zeroIsInvalid(d) })
}

// WithDrift is what is taken off every TTL for clocks that run at different rates:
// factor × TTL + floor. Factor from 0 to 0.5, floor not negative. Defaults to 0.01 and 2 ms.
// In addition 5 ms are taken off because timers fire late, or a twentieth of a TTL below 100 ms.
func WithDrift(factor float64, floor time.Duration) Option {
	return option(func(s *settings) { s.drift = quorum.Drift{Factor: factor, Floor: int64(floor)} })
}

// WithBackoff bounds the pause between two attempts of a waiting Acquire: from
// one round trip, and at least from shortest, doubling up to longest, with
// jitter. So does TryAcquire between the attempts of a split vote: with a shortest pause of the
// node timeout or more it makes one attempt. A waiter that hears of releases polls at most every second, or every longest if
// that is longer. Where a client of another library holds the lock, it polls every 50 to 250 ms whatever
// longest is, and no sooner than shortest. More than 0, and shortest no longer than longest. Defaults to 1 ms and 100 ms.
func WithBackoff(shortest, longest time.Duration) Option {
	return option(func(s *settings) { s.minBackoff, s.maxBackoff = shortest, longest })
}

// WithMaxTTL is the longest TTL that this Locker gives a key: whole milliseconds, from
// 10 ms to 365 days. Defaults to 24 h.
func WithMaxTTL(d time.Duration) Option {
	return option(func(s *settings) { s.maxTTL, s.maxTTLSet = d, true })
}

// WithClock takes time from another clock; for tests. Defaults to clock.System,
// which counts the time for which the machine was suspended.
func WithClock(c clock.Clock) Option { return option(func(s *settings) { s.clock = c }) }

// WithTrace calls the hooks of t; given several times, those of each, in that order.
// Defaults to none, which costs nothing.
func WithTrace(t *Trace) Option {
	return option(func(s *settings) {
		if t != nil {
			s.traces = append(s.traces, t)
		}
	})
}

// WithLogger logs what an operator should know, and nothing for each acquisition or
// attempt: that is what Trace is for. Tokens are never logged in full, nor passwords.
//
//   - Error: a hook panicked, or hooks fell behind: a defect of the program.
//   - Warn: a lock ended under its holder (lost, or held for its maximum time); an
//     extension failed while the lock is valid; a release found the lock lost, or could not
//     be confirmed; no quorum votes; a node does not vote for what it is or may have
//     forgotten; of nodes that Open made, a dial failed or a connection ended by an error.
//   - Info: a quorum votes again; a node votes again; of nodes that Open made, a connection
//     is up, or was closed.
//
// What lasts is logged when it begins and when it ends. Defaults to none; panics of hooks
// then go to slog.Default.
func WithLogger(l *slog.Logger) Option { return option(func(s *settings) { s.logger = l }) }

// WithUnsafeNodes names nodes that vote in spite of what is wrong with them: a replica,
// one that evicts keys, one that does not answer INFO, one that is another node's
// server. The lock's assumptions do not hold on these nodes: mutual exclusion then depends on
// what you know about them. Each name must be a node's. Defaults to none.
func WithUnsafeNodes(names ...string) Option {
	return option(func(s *settings) { s.unsafe = append(s.unsafe, names...) })
}

// WithoutNodeChecks lets every node vote, whatever is found of it: nothing looks any
// more whether the nodes are masters, keep their keys, and are different servers. It is
// for servers that can't be asked by INFO, where somebody else makes sure of all that;
// Diagnose goes on to tell what it finds.
func WithoutNodeChecks() Option { return option(func(s *settings) { s.unchecked = true }) }

// WithTLSConfig gives the nodes that Open makes from rediss:// URLs a TLS configuration, for a
// private certificate authority or client certificates. It is called at every dial, possibly
// concurrently, as pool.Config.TLS is. Open refuses it where no URL asks for TLS. New does
// not use it: its nodes have configurations of their own. Defaults to the system's authorities.
func WithTLSConfig(config func(context.Context) (*tls.Config, error)) Option {
	return option(func(s *settings) { s.tls = config })
}

// encrypt has a node that is reached by TLS, and its Sentinels, use that configuration.
func (s *settings) encrypt(cfg *pool.Config) {
	if s.tls == nil {
		return
	}
	cfg.TLS = s.tls
	if cfg.Sentinels != nil {
		cfg.Sentinels.TLS = s.tls
	}
}

// zeroIsInvalid keeps a zero that the caller gave apart from one that was not given.
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
		invalidIf(strings.HasPrefix(s.prefix, reservedPrefix) || len(s.prefix) > maxNameLen,
			"WithKeyPrefix(%q): at most %d bytes, and not %q", s.prefix, maxNameLen, reservedPrefix),
		invalidIf(!isLabel(s.owner),
			"WithOwner(%q): at most %d printable bytes without a colon or space", s.owner, maxOwnerLen),
		invalidIf(s.nodeTimeout < 0 || s.nodeTimeout != 0 && s.nodeTimeout < time.Millisecond, "WithNodeTimeout: at least 1ms"),
		invalidIf(!(s.drift.Factor >= 0 && s.drift.Factor <= 0.5) || s.drift.Floor < 0,
			"WithDrift(%v, %v): a factor from 0 to 0.5 and a floor that is not negative", s.drift.Factor, time.Duration(s.drift.Floor)),
		invalidIf(s.minBackoff <= 0 || s.maxBackoff < s.minBackoff,
			"WithBackoff(%v, %v): 0 < shortest <= longest", s.minBackoff, s.maxBackoff),
		invalidIf(s.maxTTL < MinTTL || s.maxTTL > year || s.maxTTL%time.Millisecond != 0,
			"WithMaxTTL(%v): whole milliseconds from %v to %v", s.maxTTL, MinTTL, year),
	)
}

func invalidIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return invalid(format, args...)
}

// checkUnsafe refuses names that are no node's: a slip there would be taken for an
// exception that is made.
func (s *settings) checkUnsafe(nodes []string) error {
	var errs []error
	for _, name := range s.unsafe {
		if !slices.Contains(nodes, name) {
			errs = append(errs, invalid("WithUnsafeNodes: there is no node %q; the nodes are %s", name, quoted(nodes)))
		}
	}
	return joinInvalid(errs...)
}

// isLabel reports whether an owner's label is within its bounds (WithOwner).
func isLabel(s string) bool {
	return len(s) <= maxOwnerLen && !strings.ContainsFunc(s, invalidOwnerRune)
}

func invalidOwnerRune(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }

// checkTTL bounds a TTL that a lock key may get.
func (s *settings) checkTTL(what string, ttl time.Duration) error {
	switch {
	case ttl < MinTTL || ttl > s.maxTTL:
		return invalid("%s of %v: from %v to %v (WithMaxTTL)", what, ttl, MinTTL, s.maxTTL)
	case ttl%time.Millisecond != 0:
		return invalid("%s of %v: whole milliseconds only", what, ttl)
	case s.validity(ttl) <= s.timeout(ttl):
		return invalid("%s of %v: leaves %v after the margins for drift and late timers, must be more than the node timeout of %v (WithNodeTimeout)",
			what, ttl, s.validity(ttl), s.timeout(ttl))
	}
	return nil
}

// validity is what a TTL is worth to its holder.
func (s *settings) validity(ttl time.Duration) time.Duration {
	return quorum.Until(time.Duration(0), ttl, s.drift)
}

// timeout is how long answers count in a round about a lock of this TTL.
func (s *settings) timeout(ttl time.Duration) time.Duration {
	if s.nodeTimeout > 0 {
		return s.nodeTimeout
	}
	return min(maxNodeTimeout, ttl/4)
}

// checkName bounds a name and the key that it makes.
func (s *settings) checkName(name string) error {
	switch {
	case name == "":
		return invalid("the name is empty")
	case len(name) > maxNameLen:
		return invalid("the name is %d bytes long, at most %d", len(name), maxNameLen)
	case strings.HasPrefix(s.prefix+name, reservedPrefix):
		return invalid("the key %q is in the reserved namespace %q", s.prefix+name, reservedPrefix)
	}
	return nil
}
