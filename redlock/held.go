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

// Held returns the locks that this Locker holds now, the oldest first, for a status page or a log. It
// leaves out shares, and locks that are being acquired or released. It needs no network. The result
// belongs to the caller.
func (l *Locker) Held() []HeldLock {
	l.mu.Lock()
	locks := make([]*Lock, 0, len(l.locks))
	for _, lk := range l.locks {
		locks = append(locks, lk)
	}
	l.mu.Unlock()
	locks = slices.DeleteFunc(locks, func(lk *Lock) bool { return !lk.isHeld() })
	slices.SortFunc(locks, func(a, b *Lock) int { return cmp.Compare(a.hold.Began, b.hold.Began) })
	held := make([]HeldLock, len(locks))
	now, wall := l.now(), time.UnixMicro(l.set.wall())
	for i, lk := range locks {
		held[i] = HeldLock{
			Names: lk.Names(), ID: lk.ID(), Since: wall.Add(-now.Sub(lk.hold.Began)), Remaining: lk.Remaining(), Fence: lk.Fence(),
			AutoExtend: lk.lease.Terms.AutoExtend,
		}
	}
	return held
}
