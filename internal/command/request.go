package command

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Request is what one round sends to every node. The round's commands share it. It is read-only
// once one of them was submitted.
type Request struct {
	Op    Op
	Keys  []string
	Token string
	// TTL is in whole milliseconds: the TTL of the key for Acquire and Extend, and the most that
	// is left of it for Shorten.
	TTL time.Duration
	// MaxTTL bounds TTL again inside the scripts, so that no client can write a longer one by
	// mistake (docs/dev/hazards.md H22, H23).
	MaxTTL time.Duration
	// Hint is the caller's Unix time in microseconds, for an Acquire with fencing; 0 without. A
	// node uses it up to HintClamp from its own time.
	Hint      int64
	HintClamp time.Duration
	// Fence is the value to which Confirm and an Extend raise the counters; 0 without. Below
	// 2^53.
	Fence int64
	// ReportWaiters asks for the Release's answer whether other processes wait for the keys.
	ReportWaiters bool
	// Guarded means that the request counts only on a node with the expected marker. The node
	// appends the marker to the arguments of Call.
	Guarded bool
	// Informational means that the answer is for people and counts for no lock. A client without
	// the guard may send it to guarded nodes.
	Informational bool
	// AcquiredHere reports, for an undo, that only an acquire of this process can have created
	// the keys: the token was neither repaired nor resumed. If that acquire surely executed
	// nothing, the node does not repeat the undo.
	AcquiredHere bool
	// A command that is still unsent when Clock shows NotAfter is dropped, and answered as Failed
	// and NotSent. With a nil Clock no command is dropped.
	Clock    clock.Clock
	NotAfter clock.Instant
	// ScanContext lets an Examine scan all keys for live locks until the context ends; nil
	// without a scan.
	ScanContext context.Context
	// NodeSet is what the coordinator's nodes have in common; nil without a coordinator.
	NodeSet *NodeSet

	script *Script // nil for a plain command
	name   string
	args   []any
	merge  MergeKind
	inline [5]any // the memory of args in a plain acquire or release of one key
}

// The constant words of commands, boxed once.
var (
	wordNX any = "NX"
	wordPX any = "PX"
)

// NewAcquire fills r with an Acquire. One key takes a plain SET NX PX, as in the Redis
// documentation. Several keys take one script, so that a node grants all or none, and so does an
// acquire under the guard.
func NewAcquire(r *Request, t *LockArgs, ttl, maxTTL time.Duration) {
	r.reset(Acquire, t, ttl, maxTTL)
	if len(t.Keys) == 1 && !t.Guarded {
		r.name = "SET"
		r.args = append(r.inline[:0], t.boxed[0], t.token(), wordNX, wordPX, milliseconds(ttl))
		return
	}
	r.scriptCall(acquireKind, t, milliseconds(ttl), milliseconds(maxTTL))
	r.mergeAcquire()
}

// mergeAcquire lets an acquire of one key by a script be merged with others.
func (r *Request) mergeAcquire() {
	if len(r.Keys) == 1 {
		r.merge = MergedAcquire
	}
}

// NewFencedAcquire fills r with an Acquire that increases the fence counters. hint is the Unix
// time in microseconds, and clamp how far from its own time a node accepts it. t must have
// counters.
func NewFencedAcquire(r *Request, t *LockArgs, ttl, maxTTL time.Duration, hint int64, clamp time.Duration) {
	r.reset(Acquire, t, ttl, maxTTL)
	r.Hint, r.HintClamp = hint, clamp
	r.scriptCall(acquireFencedKind, t, milliseconds(ttl), milliseconds(maxTTL), hint, microseconds(clamp))
	r.mergeAcquire()
}

// NewConfirm fills r with a Confirm of the fence. t must have counters.
func NewConfirm(r *Request, t *LockArgs, fence int64) {
	r.reset(Confirm, t, 0, 0)
	r.Fence = fence
	r.scriptCall(confirmKind, t, fence)
}

// NewExtend fills r with an Extend, which carries the fence along unless it is 0. With a fence, t
// must have counters.
func NewExtend(r *Request, t *LockArgs, ttl, maxTTL time.Duration, fence int64) {
	r.reset(Extend, t, ttl, maxTTL)
	r.scriptCallWithFence(extendKind, extendFencedKind, t, fence)
}

// NewRepair fills r with a Repair. t must be guarded. It carries the fence along as NewExtend
// does.
func NewRepair(r *Request, t *LockArgs, ttl, maxTTL time.Duration, fence int64) {
	r.reset(Repair, t, ttl, maxTTL)
	r.scriptCallWithFence(repairKind, repairFencedKind, t, fence)
}

// NewRelease fills r with a Release.
func NewRelease(r *Request, t *LockArgs) {
	r.reset(Release, t, 0, 0)
	r.scriptCall(releaseKind, t)
}

// NewAnnouncingRelease fills r with a Release that announces the freed keys on their channels.
// ownSubscribers is how many subscriptions of the caller receive the announcement.
func NewAnnouncingRelease(r *Request, t *LockArgs, ownSubscribers int) {
	r.reset(Release, t, 0, 0)
	r.ReportWaiters = true
	if len(t.Keys) == 1 && ownSubscribers == 0 {
		r.merge = MergedRelease
	}
	r.scriptCall(announceKind, t, small(ownSubscribers))
}

// SendAlone keeps the request out of merged calls. A merged release may be sent again, behind what
// follows it.
func (r *Request) SendAlone() { r.merge = Alone }

// NewCountingRelease fills r with a Release that announces nothing, because the next holder in
// this process follows, and counts the subscribers.
func NewCountingRelease(r *Request, t *LockArgs, ownSubscribers int) {
	r.reset(Release, t, 0, 0)
	r.ReportWaiters = true
	r.scriptCall(passKind, t, small(ownSubscribers))
}

// NewShorten fills r with a Shorten to left.
func NewShorten(r *Request, t *LockArgs, left, maxTTL time.Duration) {
	r.reset(Shorten, t, left, maxTTL)
	r.scriptCall(shortenKind, t, milliseconds(left), milliseconds(maxTTL))
}

// NewInspect fills r with an Inspect of the keys. The token is not used.
func NewInspect(r *Request, t *LockArgs) {
	r.reset(Inspect, t, 0, 0)
	r.scriptKeys(inspectKind, t)
}

// NewPoll fills r with a Poll of the only key. It is one plain command and no script, and
// downloads no value.
func NewPoll(r *Request, t *LockArgs) {
	r.reset(Poll, t, 0, 0)
	r.name, r.args = "PTTL", append(r.inline[:0], t.boxed[0])
}

// NewPing fills r with a Ping.
func NewPing(r *Request) {
	r.reset(Ping, &LockArgs{}, 0, 0)
	r.name, r.args = "PING", nil
}

// NewGuardedPing fills r with a Ping that only a node with the expected marker answers.
func NewGuardedPing(r *Request) {
	r.reset(Ping, &LockArgs{}, 0, 0)
	r.script, r.Guarded = pingScript, true
	r.args = append(r.scriptHead(pingScript, 1), markerKey)
}

// NewAsking fills r with ASKING, which precedes a command that a master of a Redis Cluster
// accepts for a slot that is being moved to it. Its answer is ignored.
func NewAsking(r *Request) {
	r.reset(Ping, &LockArgs{}, 0, 0)
	r.name, r.args = "ASKING", nil
}

// NewExamine fills r with an Examine. Rights are probed on the key and, with fencing, on its
// counters. None of them may exist.
func NewExamine(r *Request, key string, counters ...string) {
	r.reset(Examine, &LockArgs{Keys: append([]string{key}, counters...)}, 0, 0)
	r.name, r.args = "INFO", nil
}

func (r *Request) reset(op Op, t *LockArgs, ttl, maxTTL time.Duration) {
	r.Op, r.Keys, r.Token, r.TTL, r.MaxTTL = op, t.Keys, t.Token(), ttl, maxTTL
	r.Hint, r.HintClamp, r.Fence, r.Guarded, r.Informational, r.ReportWaiters, r.AcquiredHere = 0, 0, 0, false, false, false, false
	r.script, r.merge = nil, Alone // it may have been of another kind
}

// scriptCall makes the call of a script: its keys, the token, and more arguments.
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
		r.args = append(r.args, t.counters()...)
	}
	if r.Guarded {
		r.args = append(r.args, markerKey)
	}
}

// scriptHead starts the arguments of a script with its hash and the number of its keys.
func (r *Request) scriptHead(s *Script, keys int) []any {
	args := r.inline[:0]
	if keys > 1 {
		const most = 8 // arguments that are no keys, with a fenced acquire's
		args = make([]any, 0, keys+most)
	}
	return append(args, s.hash, small(keys))
}

// Call returns a command's name and its arguments. With source true a script is sent by its text
// instead of its hash, as after NOSCRIPT. The slice is shared and must not be changed.
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

// Scripted reports whether the request is a script call, which a node may answer by NOSCRIPT.
func (r *Request) Scripted() bool { return r.script != nil }

// Expired reports whether NotAfter has passed.
func (r *Request) Expired() bool {
	return r.Clock != nil && !r.Clock.Now().Before(r.NotAfter)
}

// Size returns about how many bytes the request takes as a Redis command. It is never too small,
// and too large for a script. It bounds one write to the socket.
func (r *Request) Size() int {
	const frame = 192 // the command's name, a script's hash, numbers, lengths
	n := frame + len(r.Token)
	if r.script != nil {
		n += len(r.script.Source) // it may have to be sent by its text
	}
	for _, k := range r.Keys {
		n += 2*len(k) + 64 // and its counter
	}
	return n
}
