package reply

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// ErrMerged is the error of merged commands whose reply makes no sense.
var ErrMerged = errors.New("pool: unexpected reply to merged commands")

// Part is what the reply to a merged call means for one of its commands.
type Part struct {
	Value any   // the reply for Decode,
	Err   error // or its error
	Again bool  // or the command may have been executed, and is sent once more by itself
}

// Merged appends to parts what the reply to one call of several commands means for each of them. Either all
// of them undo, or all acquire. If the reply makes no sense, nothing is known about any of them, and Merged
// returns ErrMerged: no later reply can be trusted.
func Merged(parts []Part, all []*command.Command, v any, err error) ([]Part, error) {
	if err == nil && mergedValid(all, v) {
		for i := range all {
			parts = append(parts, mergedResult(v, i))
		}
		return parts, nil
	}
	var same Part // for each command
	var nonsense error
	switch {
	case err == nil:
		nonsense = ErrMerged
		same.Err = ErrMerged
	case all[0].Op.Undoes() && resp.Code(err) != "NOSCRIPT":
		same.Again = true
	default:
		same.Err = mergedAcquireError(err)
	}
	return append(parts, slices.Repeat([]Part{same}, len(all))...), nonsense
}

// mergedAcquireError returns the error of an acquire whose call was answered by an error. Unless the
// error's code proves that the script wrote nothing, the acquire may have been executed. A permission
// proves nothing: it may be missing for the key of another acquire only.
func mergedAcquireError(err error) error {
	if e := resp.Clean(err); !resp.Unexecuted(e) || Denied(e) {
		return e // no redis.Error, which Decode would sort
	}
	return err
}

// mergedValid reports whether v is a reply to a call of all these commands: their number, or one
// value for each.
func mergedValid(all []*command.Command, v any) bool {
	switch v := v.(type) {
	case int64:
		return v == int64(len(all))
	case []byte:
		return all[0].Op == command.Release && len(v) == len(all) && len(bytes.Trim(v, "0123")) == 0
	case []any:
		if all[0].Op != command.Acquire || len(v) != len(all) {
			return false
		}
		for i, c := range all {
			if !mergedAcquireValid(c, v[i]) {
				return false
			}
		}
		return true
	}
	return false
}

// mergedAcquireValid reports whether v can be the result of an acquire: a vote, or an error of our
// scripts.
func mergedAcquireValid(c *command.Command, v any) bool {
	if err, ok := v.(redis.Error); ok {
		return strings.HasPrefix(string(err), "ERR redlock: ")
	}
	return decodeReply(c, v, nil).Outcome != command.Unknown
}

// mergedResult returns the reply that the command i would have had by itself.
func mergedResult(v any, i int) Part {
	const missing, one, unknown, awaited = int64(0), int64(1), int64(3), int64(5)
	switch v := v.(type) {
	case []byte: // see decodeRelease
		return Part{Value: [...]any{missing, one, awaited, unknown}[v[i]-'0']}
	case []any:
		if err, ok := v[i].(redis.Error); ok {
			return Part{Err: err}
		}
		return Part{Value: v[i]}
	}
	return Part{Value: one}
}
