package command

import (
	"math"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// Request is what one round sends to every node. The round's commands share it. It is read-only
// once one of them was submitted.
type Request struct {
	// LockArgs are the keys and the token. A request without keys has those of noLock.
	*LockArgs
	Op Op
	// ReportWaiters asks for the Release's answer whether other processes wait for the keys.
	ReportWaiters bool
	// Guarded means that the request counts only on a node with the expected marker. The node
	// appends the marker to the arguments of the call.
	Guarded bool
	// Informational means that the answer is for people and counts for no lock. A client without
	// the guard may send it to guarded nodes.
	Informational bool
	// AcquiredHere reports, for an undo, that only an acquire of this process can have created
	// the keys: the token was neither repaired nor resumed. If that acquire surely executed
	// nothing, the node does not repeat the undo.
	AcquiredHere bool

	alone bool // see SendAlone
	// ownSubscribers is how many subscriptions of the caller receive the announcement of a Release.
	ownSubscribers uint8

	// TTL is in whole milliseconds: the TTL of the key for Acquire and Extend, and the most that
	// is left of it for Shorten.
	TTL time.Duration
	// MaxTTL bounds TTL again inside the scripts, so that no client can write a longer one by
	// mistake (docs/dev/hazards.md H22, H23).
	MaxTTL time.Duration
	// span is of an Acquire with fencing how far from its own time a node accepts the hint, and of a Release
	// that is announced how long the holder had waited; 0 if it had not.
	span time.Duration
	// number is the hint of an Acquire with fencing, or the fence that another request carries: an
	// int64, boxed once. It is nil without fencing: a script with it uses the counters too.
	number any

	// A command that is still unsent when the Locker's clock shows NotAfter is dropped, and answered as
	// Failed and NotSent. With 0 it is not dropped.
	NotAfter clock.Instant

	script *Script // nil for a plain command
	other  *call   // of a request that is not about the keys of a lock; nil for others
}

// call is the call of a request that is not about the keys of a lock: its name, unless it is a
// script's, and its arguments. Those of a script begin with the number of its keys.
type call struct {
	name string
	args []any
}

var (
	noLock        = &LockArgs{}
	pingCall      = &call{name: "PING"}
	infoCall      = &call{name: "INFO"}
	askingRequest = &Request{LockArgs: noLock, Op: Ping, other: &call{name: "ASKING"}}
	markerCall    = &call{args: []any{small(1), markerKey}}
)

// The constant words of commands, boxed once.
var (
	wordNX any = "NX"
	wordPX any = "PX"
)

// SendAlone keeps the request out of merged calls. A merged release may be sent again, behind what
// follows it.
func (r *Request) SendAlone() { r.alone = true }

// Announces says what a Release or a Shorten announces. ownSubscribers is how many subscriptions of the caller
// receive that. age is how long the holder had waited; 0 if it had not.
func (r *Request) Announces(ownSubscribers int, age time.Duration) {
	r.ReportWaiters, r.span = true, age
	r.ownSubscribers = uint8(min(ownSubscribers, math.MaxUint8)) //nolint:gosec // bounded
}

// fill empties r, except for what its owner sets before, and chooses the form of its script. The number is the hint or the
// fence; 0 without fencing.
func (r *Request) fill(op Op, t *LockArgs, of forms, ttl, maxTTL time.Duration, number int64) {
	*r = Request{LockArgs: t, Op: op, TTL: ttl, MaxTTL: maxTTL, NotAfter: r.NotAfter, AcquiredHere: r.AcquiredHere}
	guarded := of.guarded
	if r.script = of.plain; number != 0 {
		r.number, r.script, guarded = number, of.fenced, of.fencedGuarded
	}
	if r.Guarded = t.UnderGuard && guarded != nil; r.Guarded {
		r.script = guarded
	}
}

// fillOther fills r with a request that is not about the keys of a lock. The script may be nil.
func (r *Request) fillOther(op Op, s *Script, c *call) {
	r.fill(op, noLock, forms{plain: s}, 0, 0, 0)
	r.other = c
}

// Hint returns the caller's Unix time in microseconds of an Acquire with fencing, and 0 otherwise.
func (r *Request) Hint() int64 {
	if r.Op != Acquire {
		return 0
	}
	n, _ := r.number.(int64)
	return n
}

// AppendCall returns a command's name, and appends its arguments to args. With source true a script is
// sent by its text instead of its hash, as after NOSCRIPT. The arguments are put together for each
// node, because a lock in flight is then smaller.
func (r *Request) AppendCall(args []any, source bool) (name string, all []any) {
	switch {
	case r.script != nil:
		name, args = r.script.call(args, source)
		return name, r.appendScriptArgs(args)
	case r.other != nil:
		return r.other.name, append(args, r.other.args...)
	case r.Op == Poll:
		return "PTTL", append(args, r.keys()...)
	case r.Op == Acquire:
		return "SET", append(args, r.keys()[0], r.token(), wordNX, wordPX, milliseconds(r.TTL))
	}
	panic("command: a request without a call: " + r.Op.String())
}

// appendScriptArgs appends the keys of a script, their number in front, and the other arguments.
func (r *Request) appendScriptArgs(args []any) []any {
	if r.other != nil {
		return append(args, r.other.args...)
	}
	n, fenced := len(r.Keys), r.number != nil
	if fenced {
		n *= 2
	}
	if r.Guarded {
		n++
	}
	args = append(append(args, small(n)), r.keys()...)
	if fenced {
		args = append(args, r.counters()...)
	}
	if r.Guarded {
		args = append(args, markerKey)
	}
	if r.Op == Inspect {
		return args
	}
	args = append(args, r.token())
	switch r.Op {
	case Acquire, Extend, Repair, Shorten:
		args = append(args, milliseconds(r.TTL), milliseconds(r.MaxTTL))
	}
	if r.ReportWaiters {
		args = append(args, small(int(r.ownSubscribers)))
		if r.script != passScripts.plain {
			args = append(args, r.age())
		}
	}
	if !fenced {
		return args
	}
	if args = append(args, r.number); r.Op == Acquire {
		args = append(args, microseconds(r.span))
	}
	return args
}

// age returns the span of a release in microseconds. It is another one each time, so it is not boxed as those
// numbers are that are used repeatedly.
func (r *Request) age() any { return int64(r.span / time.Microsecond) }

// Scripted reports whether the request is a script call, which a node may answer by NOSCRIPT.
func (r *Request) Scripted() bool { return r.script != nil }

// Expired reports whether NotAfter has passed.
func (r *Request) Expired(now clock.Instant) bool { return r.NotAfter != 0 && !now.Before(r.NotAfter) }

// Size returns about how many bytes the request takes as a Redis command. It is never too small,
// and too large for a script. It bounds one write to the socket.
func (r *Request) Size() int {
	const frame = 192 // the command's name, a script's hash, numbers, lengths
	n := frame + len(r.Token())
	if r.script != nil {
		n += len(r.script.Source) // it may have to be sent by its text
	}
	for _, k := range r.Keys {
		n += 2*len(k) + 64 // and its counter
	}
	if r.Op == Sweep {
		n += 128 * len(r.Keys) // their tokens
	}
	return n
}

var markerKey any = guard.Key
