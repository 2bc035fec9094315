package redlock

import (
	"cmp"
	"slices"
	"time"
)

// HeldLock describes a lock that a Locker holds.
type HeldLock struct {
	Names      []string      // sorted
	ID         string        // Lock.ID
	Since      time.Time     // the start of the acquisition, or of Resume
	Remaining  time.Duration // Lock.Remaining
	Fence      int64         // Lock.Fence
	AutoExtend bool          // WithAutoExtend
}

// Held returns the locks that this Locker holds now, the oldest first, for a status page or a log. Locks
// that are equally old come in the order of their IDs. It leaves out shares, and locks that are being
// acquired or released. It needs no network. The result belongs to the caller.
func (l *Locker) Held() []HeldLock {
	if l.closing == nil {
		return nil // the zero Locker
	}
	l.mu.Lock()
	locks := make([]*Lock, 0, len(l.locks))
	for _, lk := range l.locks {
		locks = append(locks, lk)
	}
	l.mu.Unlock()
	var held []HeldLock
	now, wall := l.now(), time.UnixMicro(l.set.wall())
	for _, lk := range locks {
		left := lk.Remaining()
		if left <= 0 { // it is being acquired, or has ended
			continue
		}
		held = append(held, HeldLock{
			Names: lk.Names(), ID: lk.ID(), Since: wall.Add(-now.Sub(lk.hold.Began)), Remaining: left, Fence: lk.Fence(),
			AutoExtend: lk.lease.Terms.AutoExtend,
		})
	}
	slices.SortFunc(held, func(a, b HeldLock) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return held
}
