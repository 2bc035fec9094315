package redlock

import "time"

// LockOption changes one acquisition. The zero set of options is right for most. One
// that is out of its bounds, or does not go with another, makes the acquisition fail with
// ErrInvalid, whose error names all of them, before anything is sent. A nil LockOption is skipped.
type LockOption interface{ applyLock(*lockSettings) }

type lockOption func(*lockSettings)

func (o lockOption) applyLock(s *lockSettings) { o(s) }

// NoMaxHold lets an auto-extended lock be held without end (WithMaxHold).
const NoMaxHold time.Duration = 1<<63 - 1

// lockSettings are the options of one acquisition.
type lockSettings struct {
	autoExtend   bool
	failFast     bool
	shared       bool
	asyncRelease bool
	maxHold      time.Duration // 0: none, or the default with autoExtend
	minHold      time.Duration
	progress     time.Duration
	minValidity  time.Duration
	stopMargin   time.Duration
	err          error // the settings out of bounds
}

func (s *lockSettings) positive(what string, d time.Duration) time.Duration {
	if d <= 0 {
		s.err = joinInvalid(s.err, invalid("%s(%v): more than 0", what, d))
	}
	return d
}

// WithAutoExtend extends the lock for as long as it is held, in the background: at
// a third of its validity, more often when an extension failed, and never beyond
// WithMaxHold. One failed extension does not end a lock that is still valid.
func WithAutoExtend() LockOption {
	return lockOption(func(s *lockSettings) { s.autoExtend = true })
}

// WithMaxHold ends the hold d after the acquisition began, whatever extends it, with
// ErrMaxHold. Defaults to 24 h with WithAutoExtend, so that a forgotten handle
// does not hold its name for ever (docs/hazards.md H17), and to no bound without;
// NoMaxHold takes the default away. More than WithStopMargin, and no less than
// WithMinHold.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.maxHold = s.positive("WithMaxHold", d) })
}

// WithMinHold keeps the name taken for at least d from the acquisition on, also
// when it is released before: for jobs that must not run twice in a row because
// machines' clocks differ. The key gets the larger of TTL and d from the start, and
// the hold is valid for that long; Detach is refused. Bounds are those of a TTL: whole
// milliseconds, from MinTTL to WithMaxTTL. Defaults to none.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.minHold = s.positive("WithMinHold", d) })
}

// WithProgress goes on extending only while Lock.Progress was called within d, so
// that a worker that hangs loses its lock. The acquisition counts as a first call. More
// than 0; it needs WithAutoExtend. Defaults to none.
func WithProgress(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.progress = s.positive("WithProgress", d) })
}

// WithMinValidity fails with ErrTooLate when less than d is left once a quorum has
// granted. More than 0, and no more than the TTL is worth after drift. Defaults to
// anything above zero.
func WithMinValidity(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.minValidity = s.positive("WithMinValidity", d) })
}

// WithStopMargin ends the lock's context d before its validity or maximum hold
// does, for work that needs time to stop. From then on nothing extends the lock;
// the handle stays valid until the end or Release. At most half of the TTL, and less
// than that is worth after drift; a lock won with no more left than d is ErrTooLate.
// Defaults to none.
func WithStopMargin(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.stopMargin = s.positive("WithStopMargin", d) })
}

// WithShared asks for a share of the lock whose context is given, instead of
// ErrAlreadyHeld. A context that belongs to no lock on the names acquires as usual. The
// TTL is no longer than that lock's, and WithMinHold, WithStopMargin and WithProgress are
// its own (ErrInvalid). See Lock.
func WithShared() LockOption { return lockOption(func(s *lockSettings) { s.shared = true }) }

// WithFailFast makes Acquire return ErrNoQuorum or ErrQuarantined at once when no quorum
// of nodes can vote, instead of waiting for them to come back. It still waits for a holder.
func WithFailFast() LockOption { return lockOption(func(s *lockSettings) { s.failFast = true }) }

// WithAsyncRelease makes Release return once the release is queued for every node. It saves
// a round trip where the network is slow. The outcome is reported to Trace.Released and the
// log. Locker.Close waits for it; without Close the lock may remain until its TTL. Release
// still returns an error if the lock had already ended.
//
// The release is queued after the lock's other commands, on the same connection. If nodes keep
// several connections (pool.Config.Connections), the next attempt on some of a lock's several
// names can overtake the release, and is then refused.
func WithAsyncRelease() LockOption {
	return lockOption(func(s *lockSettings) { s.asyncRelease = true })
}

// lockSettings reads the options and checks them against each other.
func (l *Locker) lockSettings(ttl time.Duration, opts []LockOption) (lockSettings, error) {
	s := gather(opts)
	err := joinInvalid(s.err, l.set.checkTTL("TTL", ttl))
	if s.minHold > 0 {
		err = joinInvalid(err, l.set.checkTTL("WithMinHold", s.minHold))
	}
	if err != nil {
		return s, err
	}
	if s.autoExtend && s.maxHold == 0 {
		s.maxHold = DefaultMaxTTL
	}
	return s, l.checkTogether(ttl, s)
}

func gather(opts []LockOption) lockSettings {
	if len(opts) == 0 {
		return lockSettings{} // the one below escapes to the heap
	}
	var set lockSettings
	for _, o := range opts {
		if o != nil {
			o.applyLock(&set)
		}
	}
	return set
}

func (l *Locker) checkTogether(ttl time.Duration, s lockSettings) error {
	valid := l.set.validity(max(ttl, s.minHold))
	var errs []error
	if s.stopMargin > ttl/2 || s.stopMargin >= valid {
		errs = append(errs, invalid("WithStopMargin(%v): at most half of the TTL of %v, and less than it is worth (%v)",
			s.stopMargin, ttl, valid))
	}
	if s.minValidity > valid {
		errs = append(errs, invalid("WithMinValidity(%v): more than a TTL of %v is worth (%v)", s.minValidity, max(ttl, s.minHold), valid))
	}
	if s.maxHold > 0 && s.maxHold < s.minHold {
		errs = append(errs, invalid("WithMaxHold(%v) is less than WithMinHold(%v)", s.maxHold, s.minHold))
	}
	if s.maxHold > 0 && s.maxHold <= s.stopMargin {
		errs = append(errs, invalid("WithMaxHold(%v) is not more than WithStopMargin(%v)", s.maxHold, s.stopMargin))
	}
	if s.progress > 0 && !s.autoExtend {
		errs = append(errs, invalid("WithProgress needs WithAutoExtend"))
	}
	return joinInvalid(errs...)
}
