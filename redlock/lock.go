package redlock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// Lock is one acquisition of one or several names, or a share of one. A Lock is not reusable: to
// acquire again, call the Locker. Its methods are safe for concurrent use.
//
// A Lock ends by Release or Detach, when its validity is over (ErrLost), when a quorum of nodes
// reports that the token no longer holds the names (ErrLost), or by WithMaxHold (ErrMaxHold).
// [Lock.Context] is cancelled with that cause, and a [LostError] says more. A Lock that has ended
// never becomes valid again. A paused process notices the end only when it runs again. Work that must
// never overlap needs a resource that checks fencing tokens (WithFencing).
//
// A share (WithShared) is a handle on the lease of another Lock. It sends no commands, and has a
// Release and a maximum hold of its own. It ends no later than the Lock that it shares.
type Lock struct {
	l      *Locker
	hold   waiting.Hold // the names, and the start of the acquisition
	args   command.LockArgs
	opts   holdOptions
	fence  int64 // the fencing token, constant once the lock is held; 0 without fencing
	family family
	keys   writtenKeys // which says what guards its fields
	timer  timer.Timer // for the next instant at which applyDue has something to do

	// mu guards all fields below, family.shares, and what writtenKeys says. It is held while an extension or
	// a repair is checked and submitted, so none follows the release, which is submitted after the lock has
	// ended under mu. No user code and no event of a round runs under it. docs/dev/architecture.md has
	// the order of mutexes.
	mu        sync.Mutex
	lease     lease.Lease
	cause     error // why the hold ended
	extending extending
	release   releaseCall
	ctx       lockContext
}

// Names returns a copy of the names that the lock holds, sorted.
func (lk *Lock) Names() []string { return slices.Clone(lk.hold.Names) }

// Token returns the value of the lock's keys. A client that knows it and can reach a quorum of the
// nodes can extend and release the lock: use ID for logs and databases.
func (lk *Lock) Token() string { return lk.args.Token() }

// Remaining returns how long the lock is still valid. Drift and a margin for late timers are
// subtracted (WithDrift), and the clock counts suspended time. If the result is 0 or less, the work
// must stop. Remaining needs no network.
func (lk *Lock) Remaining() time.Duration {
	left := lk.remaining(lk.l.now())
	if left > 0 && lk.family.shareOf != nil {
		left = min(left, lk.family.shareOf.Remaining())
	}
	return left
}

// remaining returns Remaining without regard to the lock that a share belongs to.
func (lk *Lock) remaining(now clock.Instant) time.Duration {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.lease.Remaining(now)
}

// Progress reports that the work is making progress (WithProgress). Without that option it does
// nothing.
func (lk *Lock) Progress() {
	if lk.family.shareOf != nil {
		lk.root().Progress()
		return
	}
	if lk.lease.Terms.Progress == 0 {
		return
	}
	now := lk.l.now()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.lease.MadeProgress(now) {
		lk.scheduleLocked()
	}
}

// isHeld reports whether the lock is held. It reads the clock and does not depend on timers.
func (lk *Lock) isHeld() bool {
	lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.lease.Held()
}

// overlaps reports whether the lock holds some of the names, and whether it holds all of them.
func (lk *Lock) overlaps(names []string) (some, all bool) {
	n := 0
	for _, name := range names {
		if slices.Contains(lk.hold.Names, name) {
			n++
		}
	}
	return n > 0, n == len(names)
}

// ID returns an identifier of the acquisition for logs, metrics and databases. It is 24 hexadecimal
// digits, the first 96 bits of the token's SHA-256, from which the token cannot be derived. A lock,
// its shares, and the handles that Resume makes for it have the same ID. No other lock has it.
func (lk *Lock) ID() string { return command.ID(lk.args.Token()) }

// String describes the lock without its token: names, ID, fence and remaining validity.
func (lk *Lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %s id=%s", quoted(lk.hold.Names), lk.ID())
	if lk.fence != 0 {
		fmt.Fprintf(&b, " fence=%d", lk.fence)
	}
	fmt.Fprintf(&b, " remaining=%v", max(0, lk.Remaining()).Round(time.Millisecond))
	return b.String()
}

// GoString returns String, so that %#v shows neither the token nor fields that change concurrently.
func (lk *Lock) GoString() string { return lk.String() }

// MarshalJSON returns an object for logs with names, id, fence (omitted without fencing) and
// remaining_ms. Unlike a Claim it cannot be resumed.
func (lk *Lock) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Names     []string `json:"names"`
		ID        string   `json:"id"`
		Fence     int64    `json:"fence,omitempty"`
		Remaining int64    `json:"remaining_ms"`
	}{escaped(lk.hold.Names), lk.ID(), lk.fence, max(0, lk.Remaining()).Milliseconds()})
}

// escaped returns names as logs may show them: those of a claim can contain any bytes.
func escaped(names []string) []string {
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = oneline.Printable(n)
	}
	return shown
}

// printable returns a few of the names of a lock for a log line.
func printable(names []string) []string {
	few, more := oneline.Few(names)
	shown := escaped(few)
	if more != "" {
		shown = append(shown, strings.TrimSpace(more))
	}
	return shown
}

// String describes the Locker by the names of its nodes.
func (l *Locker) String() string {
	return "locker over " + quoted(nodeNames(l.nodes))
}

// GoString returns String, so that %#v shows no field that changes concurrently.
func (l *Locker) GoString() string { return l.String() }

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
	if l.registry.closing == nil {
		return nil // the zero Locker
	}
	var held []HeldLock
	now, wall := l.now(), time.UnixMicro(l.set.wall())
	for _, lk := range l.registry.all() {
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
