package redlock

import (
	"time"
)

// NoMaxHold as the argument of WithMaxHold removes the bound on how long a lock is held.
const NoMaxHold time.Duration = 1<<63 - 1

// WithAutoExtend extends the lock in the background for as long as it is held, but not beyond
// WithMaxHold. It extends at every third of the validity, and sooner after an extension failed. A
// failed extension does not end a lock that is still valid.
func WithAutoExtend() LockOption {
	return lockOption(func(s *lockSettings) { s.autoExtend = true })
}

// WithMaxHold ends the hold with ErrMaxHold d after the acquisition began, regardless of
// extensions. With WithAutoExtend the default is 24 h, so that a forgotten handle does not hold its
// name forever. Without it the default is no bound. NoMaxHold removes the default. d must be at least
// 1 ms, more than WithStopMargin, and at least WithMinHold.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.maxHold = s.duration("WithMaxHold", d, minDuration) })
}

// WithMinHold keeps the name held for at least d after the acquisition began, even if the lock is
// released before. It is for jobs that must not run twice because machines' clocks differ.
// The key gets the larger of the TTL and d from the start, and the lock is valid for that long.
// Such a lock cannot be detached. d has the bounds of a TTL: whole milliseconds, from MinTTL to
// WithMaxTTL. It is off by default.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.minHold = s.duration("WithMinHold", d, MinTTL) })
}

// WithProgress stops the automatic extension if Lock.Progress has not been called for d, so that a
// worker that hangs loses its lock. The acquisition counts as the first call. d must be at least 1
// ms. WithProgress needs WithAutoExtend. In WithDefaults it applies to the locks that are extended. It is
// off by default.
func WithProgress(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.progress = s.duration("WithProgress", d, minDuration) })
}

// WithStopMargin ends the lock's context d before its validity or maximum hold ends, for work that
// needs time to stop. From then on nothing extends the lock. The handle stays valid until its end
// or Release. Locker.Close leaves the work as much time before its deadline, up to a quarter of its
// time. d is at least 1 ms, at most half of the TTL, and less than the validity of the TTL after drift.
// An acquisition with at most d of validity left fails with ErrTooLate. It is off by default.
func WithStopMargin(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.stopMargin = s.duration("WithStopMargin", d, minDuration) })
}

// WithShared returns a share of the lock that the context belongs to, instead of ErrAlreadyHeld. If
// the context belongs to no lock on the names, the acquisition is an ordinary one. The TTL must be
// at most that lock's. WithMinHold, WithStopMargin and WithProgress cannot be given for a share
// (ErrInvalid). See Lock.
func WithShared() LockOption { return lockOption(func(s *lockSettings) { s.shared = true }) }

// WithWait bounds how long Acquire, AcquireAll and Do wait for the lock, also in the queue of this
// process. The bound does not concern the work: the lock's context does not end with it. If the time
// is over, the error matches the reason of the last attempt as in Acquire, and no error of a context. If
// d is shorter than a round trip, that is ErrNoQuorum, because no node has answered.
// With 0 they make one attempt, as TryAcquire does. Any other d must be at least 1 ms. By default only
// the context bounds the wait. TryAcquire and Resume ignore the option.
func WithWait(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) {
		s.waitBounded, s.wait = true, d
		if d != 0 {
			s.duration("WithWait", d, minDuration)
		}
	})
}

// WithFailFast makes Acquire return ErrNoQuorum or ErrQuarantined at once if no quorum of nodes can
// vote, instead of waiting for the nodes. It still waits for a holder.
func WithFailFast() LockOption { return lockOption(func(s *lockSettings) { s.failFast = true }) }

// WithAsyncRelease makes Release return once the release is queued for every node. It saves
// a round trip where the network is slow. The outcome is reported to Trace.Released and the
// log. Locker.Close waits for it; without Close the lock may remain until its TTL. Release
// still returns an error if the lock had already ended.
//
// The release is queued after the lock's other commands, on the same connection, so the next attempt
// on its names comes after it.
func WithAsyncRelease() LockOption {
	return lockOption(func(s *lockSettings) { s.asyncRelease = true })
}

// Without switches options off for one call, such as those of WithDefaults. Only the kinds of the options
// count, not their arguments, which must be valid: Without(WithWait(0)) waits without a bound. An option
// that is off has the default that it states. A later option of the call switches it on again.
func Without(opts ...LockOption) LockOption {
	return lockOption(func(s *lockSettings) {
		var off lockSettings
		off.apply(opts)
		s.autoExtend = s.autoExtend && !off.autoExtend
		s.failFast = s.failFast && !off.failFast
		s.shared = s.shared && !off.shared
		s.asyncRelease = s.asyncRelease && !off.asyncRelease
		s.waitBounded = s.waitBounded && !off.waitBounded
		switchOff(&s.maxHold, off.maxHold)
		switchOff(&s.minHold, off.minHold)
		switchOff(&s.progress, off.progress)
		switchOff(&s.ifExtended, off.progress)
		switchOff(&s.stopMargin, off.stopMargin)
		s.err = joinInvalid(s.err, off.err)
	})
}

func switchOff(d *time.Duration, off time.Duration) {
	if off != 0 {
		*d = 0
	}
}
