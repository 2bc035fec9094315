package wire

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Request is what one round asks of every node. It is read-only once a command
// made of it was submitted, and shared by the round's commands.
type Request struct {
	Op    Op
	Keys  []string
	Token string
	// TTL is in whole milliseconds: the key's lifetime for Acquire and Extend,
	// what is left of it at most for Shorten.
	TTL time.Duration
	// MaxTTL bounds TTL once more inside the scripts, so that no client can
	// write a longer one by mistake (docs/hazards.md H22, H23).
	MaxTTL time.Duration
	// Hint is the caller's Unix time in microseconds, for an Acquire with fencing; 0
	// is one without. A node believes it as far as HintClamp from its own time.
	Hint      int64
	HintClamp time.Duration
	// Fence is what Confirm and an Extend raise the counters to; 0 for none. Below 2^53.
	Fence int64
	// ReportWaiters: the Release's answer tells whether others wait for the keys.
	ReportWaiters bool
	// Guarded: the request counts only on a node whose marker is the one expected. The
	// node puts that behind the arguments of Call.
	Guarded bool
	// Informational: the answer is for people, and counts for no lock; a client without the guard
	// may look at guarded nodes.
	Informational bool
	// AcquiredHere says of an undo that nothing but this process's acquire can have created
	// the keys: the token was neither repaired nor resumed. Where that acquire surely executed
	// nothing, the node then does not repeat the undo.
	AcquiredHere bool
	// Clock and NotAfter: a command still unsent when Clock shows NotAfter is
	// dropped, and answered as Failed and NotSent. A nil Clock never drops.
	Clock    clock.Clock
	NotAfter clock.Instant
	// ScanContext has an Examine look through all keys for some that are alive, for as long as
	// it lasts; nil for none.
	ScanContext context.Context
	// NodeSet is what the coordinator's nodes have in common; nil where nobody asks
	// them together.
	NodeSet *NodeSet

	script *Script // nil for a plain command
	name   string
	args   []any
	inline [5]any // what args is made of in a plain acquire or release of one key
}

// The fixed words of the wire, boxed once.
var (
	wordNX any = "NX"
	wordPX any = "PX"
)

// NewAcquire fills r with an Acquire. One key takes a plain SET NX PX, as the
// Redis documentation says it; several take one script, so that a node grants
// all or none, and so does one under the guard.
func NewAcquire(r *Request, t *LockArgs, ttl, maxTTL time.Duration) {
	r.reset(Acquire, t, ttl, maxTTL)
	if len(t.Keys) == 1 && !t.Guarded {
		r.name = "SET"
		r.args = append(r.inline[:0], t.boxed[0], t.token(), wordNX, wordPX, milliseconds(ttl))
		return
	}
	r.scriptCall(acquireKind, t, milliseconds(ttl), milliseconds(maxTTL))
}

// NewFencedAcquire fills r with an Acquire that bumps the fence counters: hint is the
// Unix time in microseconds, clamp how far from its own time a node believes it. The
// terms must have counters.
func NewFencedAcquire(r *Request, t *LockArgs, ttl, maxTTL time.Duration, hint int64, clamp time.Duration) {
	r.reset(Acquire, t, ttl, maxTTL)
	r.Hint, r.HintClamp = hint, clamp
	r.scriptCall(acquireFencedKind, t, milliseconds(ttl), milliseconds(maxTTL), hint, microseconds(clamp))
}

// NewConfirm fills r with a Confirm of the fence. The terms must have counters.
func NewConfirm(r *Request, t *LockArgs, fence int64) {
	r.reset(Confirm, t, 0, 0)
	r.Fence = fence
	r.scriptCall(confirmKind, t, fence)
}

// NewExtend fills r with an Extend, which carries the fence along unless it is 0; with
// a fence the terms must have counters.
func NewExtend(r *Request, t *LockArgs, ttl, maxTTL time.Duration, fence int64) {
	r.reset(Extend, t, ttl, maxTTL)
	r.scriptCallWithFence(extendKind, extendFencedKind, t, fence)
}

// NewRepair fills r with a Repair, which needs terms under the guard, and carries the
// fence along as NewExtend does.
func NewRepair(r *Request, t *LockArgs, ttl, maxTTL time.Duration, fence int64) {
	r.reset(Repair, t, ttl, maxTTL)
	r.scriptCallWithFence(repairKind, repairFencedKind, t, fence)
}

// NewRelease fills r with a Release.
func NewRelease(r *Request, t *LockArgs) {
	r.reset(Release, t, 0, 0)
	r.scriptCall(releaseKind, t)
}

// NewAnnouncingRelease fills r with a Release that publishes on the keys' channels that
// they are free. Own is how many subscriptions of the caller's hear it.
func NewAnnouncingRelease(r *Request, t *LockArgs, own int) {
	r.reset(Release, t, 0, 0)
	r.ReportWaiters = true
	r.scriptCall(announceKind, t, small(own))
}

// NewCountingRelease fills r with a Release that publishes nothing, because somebody is behind it
// already, and counts who would have heard it.
func NewCountingRelease(r *Request, t *LockArgs, own int) {
	r.reset(Release, t, 0, 0)
	r.ReportWaiters = true
	r.scriptCall(passKind, t, small(own))
}

// NewShorten fills r with a Shorten to what is left.
func NewShorten(r *Request, t *LockArgs, left, maxTTL time.Duration) {
	r.reset(Shorten, t, left, maxTTL)
	r.scriptCall(shortenKind, t, milliseconds(left), milliseconds(maxTTL))
}

// NewInspect fills r with an Inspect of the keys; the token is not used.
func NewInspect(r *Request, t *LockArgs) {
	r.reset(Inspect, t, 0, 0)
	r.scriptKeys(inspectKind, t)
}

// NewPoll fills r with a Poll of the only key. It is a plain command and no script, which
// costs the server one command, and it downloads no value.
func NewPoll(r *Request, t *LockArgs) {
	r.reset(Poll, t, 0, 0)
	r.name, r.args = "PTTL", append(r.inline[:0], t.boxed[0])
}

// NewPing fills r with a Ping.
func NewPing(r *Request) {
	r.reset(Ping, &LockArgs{}, 0, 0)
	r.name, r.args = "PING", nil
}

// NewGuardedPing fills r with a Ping that only a node answers whose marker lets it vote.
func NewGuardedPing(r *Request) {
	r.reset(Ping, &LockArgs{}, 0, 0)
	r.script, r.Guarded = pingScript, true
	r.args = append(r.scriptHead(pingScript, 1), markerKey)
}

// NewAsking fills r with what goes right before a command that a master of a Redis Cluster
// takes by way of exception. Nobody waits for its answer.
func NewAsking(r *Request) {
	r.reset(Ping, &LockArgs{}, 0, 0)
	r.name, r.args = "ASKING", nil
}

// NewExamine fills r with an Examine. Rights are tried on the key, and with fencing on the
// counters. None of them may exist.
func NewExamine(r *Request, key string, counters ...string) {
	r.reset(Examine, &LockArgs{Keys: append([]string{key}, counters...)}, 0, 0)
	r.name, r.args = "INFO", nil
}

func (r *Request) reset(op Op, t *LockArgs, ttl, maxTTL time.Duration) {
	r.Op, r.Keys, r.Token, r.TTL, r.MaxTTL = op, t.Keys, t.Token, ttl, maxTTL
	r.Hint, r.HintClamp, r.Fence, r.Guarded, r.Informational, r.ReportWaiters, r.AcquiredHere = 0, 0, 0, false, false, false, false
	r.script = nil // it may have been of another kind
}

// scriptCall makes a script's call: its keys, the token, and more arguments.
func (r *Request) scriptCall(k kind, t *LockArgs, more ...any) {
	r.scriptKeys(k, t)
	r.args = append(append(r.args, t.token()), more...)
}

// scriptCallWithFence chooses between a script without a fence and one with it.
func (r *Request) scriptCallWithFence(without, with kind, t *LockArgs, fence int64) {
	if fence == 0 {
		r.scriptCall(without, t, milliseconds(r.TTL), milliseconds(r.MaxTTL))
		return
	}
	r.Fence = fence
	r.scriptCall(with, t, milliseconds(r.TTL), milliseconds(r.MaxTTL), fence)
}

// scriptKeys begins a script's call with its keys.
func (r *Request) scriptKeys(k kind, t *LockArgs) {
	r.script, r.Guarded = k.plain, t.Guarded && k.guarded != nil
	n := len(t.Keys)
	if k.fenced {
		n *= 2
	}
	if r.Guarded {
		r.script = k.guarded
		n++
	}
	r.args = append(r.scriptHead(r.script, n), t.keys()...)
	if k.fenced {
		r.args = append(r.args, t.counters...)
	}
	if r.Guarded {
		r.args = append(r.args, markerKey)
	}
}

// scriptHead starts a script's arguments with its hash and the number of its keys.
func (r *Request) scriptHead(s *Script, keys int) []any {
	args := r.inline[:0]
	if keys > 1 {
		const most = 8 // arguments that are no keys, with a fenced acquire's
		args = make([]any, 0, keys+most)
	}
	return append(args, s.hash, small(keys))
}

// Call says what to send: a command's name and its arguments. With source
// true a script goes by its text instead of its hash, as after NOSCRIPT.
// The slice is shared: it must not be changed.
func (r *Request) Call(source bool) (name string, args []any) {
	if r.script == nil {
		return r.name, r.args
	}
	if !source {
		return "EVALSHA", r.args
	}
	args = append([]any{r.script.Source}, r.args[1:]...)
	return "EVAL", args
}

// Scripted reports whether the request is a script's call, which a node may
// answer by NOSCRIPT.
func (r *Request) Scripted() bool { return r.script != nil }

// Expired reports whether the not-after instant has passed.
func (r *Request) Expired() bool {
	return r.Clock != nil && !r.Clock.Now().Before(r.NotAfter)
}

// Size is about how many bytes the request takes on the wire; never too few, and with a
// script too many: it bounds what goes out in one write.
func (r *Request) Size() int {
	const frame = 192 // the command's name, a script's hash, numbers, lengths
	n := frame + len(r.Token)
	if r.script != nil {
		n += len(r.script.Source) // it may have to go by its text
	}
	for _, k := range r.Keys {
		n += 2*len(k) + 64 // its counter as well
	}
	return n
}
