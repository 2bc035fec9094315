package redlock

import (
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/pool"
)

// Option is an option of a Locker. The defaults suit most services. If an option is out of bounds,
// New and Open return an error that matches ErrInvalid and names all such options. A nil Option is
// ignored.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// LockOption is an option of one acquisition. The defaults suit most callers. If an option is out
// of bounds or conflicts with another, the acquisition sends nothing and returns an error that
// matches ErrInvalid and names all such options. A nil LockOption is ignored.
type LockOption interface{ applyLock(*lockSettings) }

type lockOption func(*lockSettings)

func (o lockOption) applyLock(s *lockSettings) { o(s) }

// lockSettings are the options of one acquisition.
type lockSettings struct {
	autoExtend   bool
	failFast     bool
	shared       bool
	asyncRelease bool
	waitBounded  bool          // wait is how long to wait
	wait         time.Duration // 0: not at all
	maxHold      time.Duration // 0: the default with autoExtend, otherwise none
	minHold      time.Duration
	progress     time.Duration
	stopMargin   time.Duration
	ifExtended   time.Duration // the progress of WithDefaults, for a lock that is extended
	err          error         // for options that are out of bounds
}

func (s *lockSettings) apply(opts []LockOption) {
	for _, o := range opts {
		if o != nil {
			o.applyLock(s)
		}
	}
}

// duration returns d, and records an error with the option's least value if d is a number without a unit.
func (s *lockSettings) duration(what string, d, least time.Duration) time.Duration {
	if d < minDuration {
		s.err = joinInvalid(s.err, invalid("%s(%v): at least %v; for seconds write 5 * time.Second", what, d, least))
	}
	return d
}

// gather applies the defaults and then the options. A default WithProgress applies to the acquisitions
// that are extended.
func gather(defaults, opts []LockOption) lockSettings {
	if len(defaults) == 0 && len(opts) == 0 {
		return lockSettings{} // the variable below escapes to the heap
	}
	var set lockSettings
	set.apply(defaults)
	set.ifExtended, set.progress = set.progress, 0
	set.apply(opts)
	if set.progress == 0 && set.autoExtend {
		set.progress = set.ifExtended
	}
	return set
}

// Bounds and defaults of several settings. MinTTL is the shortest TTL that is accepted.
// DefaultMaxTTL is the longest, unless WithMaxTTL or WithRestartGuard sets another.
const (
	MinTTL         = 10 * time.Millisecond
	DefaultMaxTTL  = 24 * time.Hour
	maxNameLen     = 512
	reservedPrefix = command.Reserved // keys and channels other than locks
	maxNodeTimeout = 500 * time.Millisecond
)

// minDuration is the least duration of an option. A shorter one is a number without a unit, which Go
// takes for nanoseconds.
const minDuration = time.Millisecond

// maxFence bounds fencing tokens. Redis scripts count in doubles, which represent whole numbers
// exactly up to this bound. Microseconds since 1970 reach it in the year 2255.
const maxFence = 1 << 53

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
	onlyReads   bool // see door.ForReads
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
	clustered    bool // at least one node is a Redis Cluster
}

// resolve applies settings that depend on each other. It runs before check.
func (s *settings) resolve() error {
	switch {
	case s.repair && !s.guarded:
		return invalid("WithRepair needs WithRestartGuard")
	case !s.guarded:
		return nil
	case s.maxTTLSet && s.maxTTL != s.guardTTL:
		return invalid("WithMaxTTL(%v) with WithRestartGuard(%v): the values must be equal", s.maxTTL, s.guardTTL)
	}
	s.maxTTL = s.guardTTL
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

// readTimeout returns how long answers count in rounds that have no TTL.
func (s *settings) readTimeout() time.Duration {
	if s.nodeTimeout > 0 {
		return s.nodeTimeout
	}
	return maxNodeTimeout
}

// hint returns this machine's time in the form that nodes take, in microseconds.
func (s *settings) hint() int64 { return min(max(s.wall(), 1), maxFence-1) }

// clamp returns how far from its own time a node accepts a hint. Two nodes' counters differ by at
// most the difference of their clocks and twice this value.
func (s *settings) clamp() time.Duration { return min(time.Second, s.maxTTL/4) }

// votesUnfit reports whether a node votes although its server is unfit.
func (s *settings) votesUnfit(node string) bool { return slices.Contains(s.unsafe, node) }

// newGuard returns what all guarded clients of the nodes must agree on, or nil without the guard.
func (s *settings) newGuard(nodes []command.Voter) *guard.Settings {
	if !s.guarded {
		return nil
	}
	g := guard.New(s.maxTTL, nodeNames(nodes))
	for _, n := range nodes {
		if d := n.Kind().MaxAge; d > 0 {
			g.MaxAge[n.Name()] = d
		}
	}
	return g
}

// encrypt sets the TLS configuration of a node and of its Sentinels.
func (s *settings) encrypt(cfg *pool.Config) {
	if s.tls != nil {
		cfg.SetTLS(s.tls)
	}
}

// keys returns the keys of the names. Without a prefix they are the names themselves.
func (s *settings) keys(names []string) []string {
	if s.prefix == "" {
		return names
	}
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = s.prefix + n
	}
	return keys
}

// leaseTerms returns the terms of the lease of an acquisition.
func (s *settings) leaseTerms(ttl time.Duration, o *lockSettings) lease.Terms {
	return lease.Terms{
		AutoExtend: o.autoExtend,
		Interval:   (s.validity(ttl) - o.stopMargin) / 3,
		Patience:   2 * s.timeout(ttl),
		StopMargin: o.stopMargin,
		MaxHold:    o.maxHold,
		Progress:   o.progress,
	}
}
