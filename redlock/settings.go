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
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/internal/wallclock"
	"github.com/quorumlock/go-redlock/pool"
)

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
	clustered    bool // at least one node is a Redis Cluster
}

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

func invalidIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return invalid(format, args...)
}

// maxTTLOption returns the name of the option that has set maxTTL.
func (s *settings) maxTTLOption() string {
	if s.guarded {
		return "WithRestartGuard"
	}
	return "WithMaxTTL"
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

// checkKinds rejects nodes whose kind conflicts with the settings.
func (s *settings) checkKinds(nodes []command.Voter) error {
	for _, n := range nodes {
		switch t := n.Kind(); {
		case t.MaxAge > 0 && !s.guarded:
			return invalid("node %s follows Sentinels and needs WithRestartGuard: a promoted replica may lack the last locks "+
				"of its master", n.Name())
		case t.Cluster && s.guarded:
			return invalid("node %s is a Redis Cluster, which cannot have WithRestartGuard: scripts read the marker, one key of "+
				"each server, but a Cluster restricts a script to the keys of one slot; omit the guard, or use single masters "+
				"or masters with Sentinels", n.Name())
		}
	}
	return nil
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

// maxNames bounds the names of one lock. Each name adds to a script that blocks its server.
const maxNames = 1024

func (s *settings) checkNames(names []string) error {
	switch {
	case len(names) == 0:
		return invalid("no names")
	case len(names) > maxNames:
		return invalid("%d names, at most %d", len(names), maxNames)
	}
	for i, n := range names {
		if err := s.checkName(n); err != nil {
			return err
		}
		if i > 0 && n == names[i-1] {
			return invalid("the name %q is given twice", n)
		}
	}
	if s.clustered {
		return s.checkSlots(names)
	}
	return nil
}

// checkSlots rejects a lock that a Redis Cluster cannot take in one step, because its keys are on
// several masters (docs/dev/rules.md rule 30).
func (s *settings) checkSlots(names []string) error {
	keys := s.keys(names)
	if !command.SameSlot(keys) {
		return invalid("names in several slots of a Redis Cluster: give them a common " +
			"hash tag, as in {order:7}:stock and {order:7}:payment")
	}
	for _, k := range keys {
		if s.fencing && !command.CanHaveFenceKey(k) {
			return invalid("key %q cannot have a fence counter in its slot of a Redis Cluster because of the }: remove the }, or add "+
				"a hash tag, as in {order:7}:stock", k)
		}
	}
	return nil
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

// readTimeout returns how long answers count in rounds that have no TTL.
func (s *settings) readTimeout() time.Duration {
	if s.nodeTimeout > 0 {
		return s.nodeTimeout
	}
	return maxNodeTimeout
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
