package redlock

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
)

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
		case t.MaxAge > 0 && !s.guarded && !s.onlyReads:
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

// checkLock checks the settings of an acquisition against each other, and sets the default maximum
// hold.
func (s *settings) checkLock(ttl time.Duration, o *lockSettings) error {
	err := joinInvalid(o.err, s.checkTTL("TTL", ttl))
	if o.minHold >= minDuration { // o.err has a shorter one
		err = joinInvalid(err, s.checkTTL("WithMinHold", o.minHold))
	}
	if err != nil {
		return err
	}
	if o.autoExtend && o.maxHold == 0 {
		o.maxHold = DefaultMaxTTL
	}
	return s.checkTogether(ttl, o)
}

func (s *settings) checkTogether(ttl time.Duration, o *lockSettings) error {
	valid := s.validity(max(ttl, o.minHold))
	var errs []error
	if o.stopMargin > ttl/2 || o.stopMargin >= valid {
		errs = append(errs, invalid("WithStopMargin(%v): at most half of the TTL of %v, and less than its validity (%v)",
			o.stopMargin, ttl, valid))
	}
	if o.maxHold > 0 && o.maxHold < o.minHold {
		errs = append(errs, invalid("WithMaxHold(%v) is less than WithMinHold(%v)", o.maxHold, o.minHold))
	}
	if o.maxHold > 0 && o.maxHold <= o.stopMargin {
		errs = append(errs, invalid("WithMaxHold(%v) is not more than WithStopMargin(%v)", o.maxHold, o.stopMargin))
	}
	if o.progress > 0 && !o.autoExtend {
		errs = append(errs, invalid("WithProgress needs WithAutoExtend"))
	}
	return joinInvalid(errs...)
}
