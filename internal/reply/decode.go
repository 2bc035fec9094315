// Package reply turns what a server answered into a vote.
package reply

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Decode turns a reply, as redigo returns it, into a vote. A server may repeat what it was sent,
// so no error of it shows the command's token. The connection has withheld its password.
func Decode(c *command.Command, v any, err error) command.Reply {
	// Redacted before the text is cut for an error, which could leave a part of a token. The check
	// of the length spares the usual replies OK and PONG.
	if status, ok := v.(string); ok && len(status) > len("PONG") {
		v = oneline.Redact(status, c.Token())
	}
	return decodeReply(c, v, err)
}

// decodeReply decodes a reply whose error and status are redacted.
func decodeReply(c *command.Command, v any, err error) command.Reply {
	if err != nil {
		return classify(err)
	}
	// Each operation accepts only the replies that its command can have. Anything else is Unknown,
	// and its keys are undone.
	switch c.Op {
	case command.Acquire:
		switch {
		// An acquire with fencing returns its counter, a scripted one a number, and SET a status.
		case c.Hint() != 0:
			return decodeFence(v, c.Hint())
		case c.Scripted():
			return decodeCount(v, 1)
		}
		return decodeSet(v)
	case command.VerifyMarker:
		return decodeMarkerStatus(v)
	case command.Extend, command.Confirm, command.Repair:
		// -1 says that the marker is not the one that the command expected.
		if c.Guarded && v == int64(-1) {
			return command.Reply{Outcome: command.Unknown, Err: command.ErrUnmarked}
		}
		return decodeCount(v, 1)
	case command.Release, command.Shorten, command.Sweep:
		// Without ReportWaiters the script returns the plain number.
		if c.ReportWaiters {
			return decodeRelease(v, int64(len(c.Keys)))
		}
		return decodeCount(v, int64(len(c.Keys)))
	case command.Inspect:
		return decodeInspect(v, len(c.Keys))
	case command.Poll:
		return decodePoll(v)
	case command.Ping:
		// Any other reply is that of another command.
		if v == "PONG" {
			return command.Reply{Outcome: command.Granted}
		}
	}
	return unexpectedReply(v)
}

// decodeSet reads the reply to SET NX: OK or nil. It takes nothing else for a vote, because any
// other reply would belong to another command (docs/dev/hazards.md H72).
func decodeSet(v any) command.Reply {
	switch v {
	case "OK":
		return command.Reply{Outcome: command.Granted}
	case nil:
		return command.Reply{Outcome: command.Refused}
	}
	return unexpectedReply(v)
}

// decodeCount reads a script's reply: the number of keys that held the token. A script that does
// all or nothing replies 1 for all keys.
func decodeCount(v any, all int64) command.Reply {
	n, ok := v.(int64)
	switch {
	case !ok || n < 0 || n > all:
		return unexpectedReply(v)
	case n == all:
		return command.Reply{Outcome: command.Granted}
	}
	return command.Reply{Outcome: command.Refused}
}

// decodeRelease reads the number n of keys that held the token, and whether others wait for one of them: the
// reply is n, and all + 1 more if that is unknown, or twice as much if they do. redigo does not allocate for
// small numbers.
func decodeRelease(v any, all int64) command.Reply {
	n, ok := v.(int64)
	if !ok || n <= all {
		return decodeCount(v, all)
	}
	others := min(n/(all+1), int64(command.OthersWait))
	// Decoded once more: the number of keys must be valid in this form as well.
	r := decodeCount(n-others*(all+1), all)
	if r.Outcome != command.Unknown {
		r.Others = command.Others(others) //nolint:gosec // bounded
	}
	return r
}

// decodeFence reads the counter of a node that grants, relative to the hint. A reply p above 0
// means hint + p - 1, and below 0 it means hint + p. 0 is a refusal. The reply is usually 1, and
// redigo does not allocate for small numbers.
func decodeFence(v any, hint int64) command.Reply {
	const limit = 1 << 53
	n, ok := v.(int64)
	switch {
	case n == 0 && ok:
		return command.Reply{Outcome: command.Refused}
	// A fence is above 0 and at most about 2^53.
	case !ok || n <= -hint || n > limit-hint:
		return unexpectedReply(v)
	// 0 is a refusal, so that numbers from the hint on are one larger.
	case n > 0:
		n--
	}
	return command.Reply{Outcome: command.Granted, Fence: hint + n}
}

// decodeMarkerStatus reads the state of a node under the restart guard: a word, and its
// arguments.
func decodeMarkerStatus(v any) command.Reply {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return unexpectedReply(v)
	}
	word, _ := redis.String(list[0], nil)
	a := &guard.MarkerStatus{}
	r := command.Reply{Outcome: command.Granted, MarkerStatus: a}
	var err error
	switch {
	case (word == "ok" || word == "foreign") && len(list) == 2:
		if a.Status = guard.Marked; word == "foreign" {
			a.Status = guard.Foreign
		}
		var text []byte
		text, err = redis.Bytes(list[1], nil)
		a.Marker = guard.Text(text)
	case word == "quarantined" && len(list) == 3:
		left, err1 := redis.Int64(list[1], nil)
		began, err2 := redis.Int64(list[2], nil)
		a.Status, a.Left, a.JustBegan = guard.Quarantined, lifetime(max(0, left)), began == 1
		err = errors.Join(err1, err2)
	case word == "replica" && len(list) == 1:
		a.Status = guard.NoMaster
	default:
		return unexpectedReply(v)
	}
	if err != nil {
		return unexpectedReply(v)
	}
	return r
}

// decodeInspect reads three values for each key: type, value and PTTL.
func decodeInspect(v any, keys int) command.Reply {
	const perKey = 3
	list, ok := v.([]any)
	if !ok || len(list) != perKey*keys {
		return unexpectedReply(v)
	}
	r := command.Reply{Outcome: command.Granted, KeyStates: make([]command.KeyState, keys)}
	// The values are in the order of the keys of the request.
	for i := range r.KeyStates {
		kind, err1 := redis.String(list[perKey*i], nil)
		value, err2 := tokenOrSize(list[perKey*i+1])
		ms, err3 := redis.Int64(list[perKey*i+2], nil)
		if kind == "" || ms < -2 || errors.Join(err1, err2, err3) != nil {
			return unexpectedReply(v)
		}
		r.KeyStates[i] = newKeyState(kind, value, ms)
	}
	return r
}

// tokenOrSize reads a value, or the size of a value that is too long for a token.
func tokenOrSize(v any) (string, error) {
	if size, ok := v.(int64); ok {
		return command.LongValue(size), nil
	}
	return redis.String(v, nil)
}

// decodePoll reads the reply to PTTL: -2 without a key, -1 for a key that never expires.
func decodePoll(v any) command.Reply {
	// A hostile number is bounded by lifetime before any arithmetic.
	switch ms, ok := v.(int64); {
	case !ok || ms < -2:
		return unexpectedReply(v)
	case ms == -2:
		return command.Reply{Outcome: command.Granted}
	default:
		return command.Reply{Outcome: command.Refused, Left: lifetime(ms)}
	}
}

// maxLifetime is about 146 years: a margin can be added without an overflow.
const maxLifetime = math.MaxInt64 / 2

// lifetime converts milliseconds from a server into a duration. Redis accepts a PX of 9e18, which
// exceeds a Duration (docs/dev/hazards.md H23).
func lifetime(ms int64) time.Duration {
	return time.Duration(min(ms, int64(maxLifetime/time.Millisecond))) * time.Millisecond
}

// newKeyState returns the state of a key by its type, value and remaining milliseconds.
func newKeyState(kind, value string, ms int64) command.KeyState {
	ttl := lifetime(ms)
	switch {
	case kind == "none":
		return command.KeyState{}
	case kind == "string" && value != "":
		return command.KeyState{Value: value, TTL: ttl}
	}
	return command.KeyState{ForeignType: kind, TTL: ttl} // an empty string is no token, but blocks one
}

// unexpectedReply returns an Unknown vote for a reply that makes no sense. Its error shows no
// bulk string, because that may be a token, and a token lets its reader release the lock.
func unexpectedReply(v any) command.Reply {
	shown := fmt.Sprintf("of type %T", v)
	switch v := v.(type) {
	case nil, int64:
		shown = fmt.Sprint(v)
	case string: // a status
		shown = fmt.Sprintf("%.40q", v)
	}
	return command.Reply{Outcome: command.Unknown, Err: fmt.Errorf("pool: unexpected reply %s", shown)}
}
