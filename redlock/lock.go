package redlock

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
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
	hold
	family  family
	release releaseCall
	ctx     lockContext
}

// Names returns a copy of the names that the lock holds, sorted.
func (lk *Lock) Names() []string { return slices.Clone(lk.holder.Names) }

// Token returns the value of the lock's keys. A client that knows it and can reach a quorum of the
// nodes can extend and release the lock: use ID for logs and databases.
func (lk *Lock) Token() string { return lk.args.Token() }

// Remaining returns how long the lock is still valid. Drift and a margin for late timers are
// subtracted (WithDrift), and the clock counts suspended time. If the result is 0 or less, the work
// must stop. Remaining needs no network.
func (lk *Lock) Remaining() time.Duration {
	left := lk.remaining(lk.l.now())
	if left > 0 && lk.isShare() {
		left = min(left, lk.outer.lock().Remaining())
	}
	return left
}

// Progress reports that the work is making progress (WithProgress). Without that option it does
// nothing.
func (lk *Lock) Progress() {
	if lk.isShare() {
		lk.keeper().lock().Progress()
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

// ID returns an identifier of the acquisition for logs, metrics and databases. It is 24 hexadecimal
// digits, the first 96 bits of the token's SHA-256, from which the token cannot be derived. A lock,
// its shares, and the handles that Resume makes for it have the same ID. No other lock has it.
func (lk *Lock) ID() string { return command.ID(lk.args.Token()) }

// String describes the lock without its token: names, ID, fence and remaining validity.
func (lk *Lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %s id=%s", quoted(lk.holder.Names), lk.ID())
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
	}{escaped(lk.holder.Names), lk.ID(), lk.fence, max(0, lk.Remaining()).Milliseconds()})
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

// Fence returns the fencing token, which orders the locks on a name: see WithFencing. It is constant
// during the hold, also across Detach and Resume. It is 0 without WithFencing. See AcceptFence for its
// use by a resource.
func (lk *Lock) Fence() int64 { return lk.fence }

// Err returns nil while the lock is valid and has not ended its context, and afterwards the reason. It
// matches what context.Cause returns for Lock.Context, and a *LostError is as of now. So after Release
// it matches ErrReleased, whatever Release returned. If the context of the caller of Do has ended, and
// not the lock, it is nil. It needs no network, and is safe for concurrent use.
//
// Join it to the error of work that the end of the lock may have cut short: that error often is no more
// than context.Canceled.
func (lk *Lock) Err() error {
	lk.applyDue()
	cause := lk.contextCause()
	if cause == nil {
		return nil
	}
	return lk.named(cause)
}
