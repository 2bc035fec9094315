package pool

import (
	"bytes"
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// Most of what a short script costs a server is to begin it. So a batch's releases of one name each
// are sent as one call, behind the batch's other commands, and so are its acquires of one name each
// that need a script. Each is answered as if it was sent by itself. See ADR 17 and 18.

// mergeState says how a connection sends commands of one kind. It is guarded by pipeline.mu.
type mergeState struct {
	on       bool // several are sent as one call
	evalNext bool // the server does not know the script: the next call sends its text

	// The commands that are taken from the queue and will be appended to the batch, and their keys.
	aside []*command.Command
	keys  map[string]struct{}
}

func newMergeStates(n *Node) (all [command.MergeKinds]mergeState) {
	on := !n.cfg.Proxied && n.kind.severalSlots()
	for kind := command.Alone + 1; kind < command.MergeKinds; kind++ {
		all[kind] = mergeState{on: on, keys: make(map[string]struct{})}
	}
	return all
}

// appendSameKeysLocked puts commands that were set aside into the batch if one of them is for a key of
// c. A command may be sent later than it was queued, but never behind a later command for its key.
func (pc *pipeConn) appendSameKeysLocked(c *command.Command) {
	for kind := range pc.merge {
		for _, key := range c.Keys {
			if _, ok := pc.merge[kind].keys[key]; ok {
				pc.appendMergedLocked(command.MergeKind(kind)) //nolint:gosec // one of three
				break
			}
		}
	}
}

// setAsideLocked sets a command aside if it can be merged with others of this batch, and reports
// whether it did. appendSameKeysLocked must come before it.
func (pc *pipeConn) setAsideLocked(c *command.Command) bool {
	m := &pc.merge[c.MergeKind()]
	if m.on {
		m.aside = append(m.aside, c)
		m.keys[c.Keys[0]] = struct{}{}
	}
	return m.on
}

// appendAllMergedLocked puts all commands that were set aside into the batch. Acquires come first,
// because their callers wait.
func (pc *pipeConn) appendAllMergedLocked() {
	pc.appendMergedLocked(command.MergedAcquire)
	pc.appendMergedLocked(command.MergedRelease)
}

// appendMergedLocked puts the commands of one kind that were set aside into the batch.
func (pc *pipeConn) appendMergedLocked(kind command.MergeKind) {
	m := &pc.merge[kind]
	for i, c := range m.aside {
		n := min(len(m.aside)-i, command.MaxMerged)
		switch first := i%command.MaxMerged == 0; {
		case first && n > 1:
			c.Merged = uint8(n) //nolint:gosec // at most MaxMerged
			pc.evalMerged, m.evalNext = pc.evalMerged || m.evalNext, false
			pc.pipeline.node.count.merged.Add(int64(n))
			pc.appendToBatchLocked(c)
		case first:
			pc.appendToBatchLocked(c)
		default:
			pc.pushLocked(c) // part of the call before
		}
	}
	clear(m.keys)
	clear(m.aside) // as nextAnswered does
	m.aside = m.aside[:0]
}

// handleMergedReply answers the commands of one call, of which first is the first. If the reply makes
// no sense, nothing is known about any of them, and handleMergedReply returns the error with which the
// connection ends.
func (pc *pipeConn) handleMergedReply(first *command.Command, v any, err error) error {
	pc.oneCall = append(pc.oneCall[:0], first)
	for len(pc.oneCall) < int(first.Merged) {
		pc.oneCall = append(pc.oneCall, pc.nextAnswered()) // all were written together
	}
	all := pc.oneCall
	defer clear(all) // as nextAnswered does
	why := resp.Clean(err)
	if err != nil {
		pc.afterFailedMerge(first.MergeKind(), why)
		pc.pipeline.node.count.unmerged.Add(int64(len(all)))
	} else if !mergedReplyValid(all, v) {
		err = errMergedReply
		for _, c := range all {
			pc.handleReply(c, nil, err)
		}
		return err
	}
	for i, c := range all {
		switch {
		case err == nil:
			v, err := mergedResult(v, i)
			pc.handleReply(c, v, err)
		case c.Op.Undoes() && resp.Code(why) != "NOSCRIPT":
			// It is sent again by itself, with the result of an undo that may have been executed before.
			c.MarkResend()
			pc.pipeline.requeue(c)
		default:
			pc.handleReply(c, nil, mergedAcquireError(err, pc.raw.password))
		}
	}
	return nil
}

var errMergedReply = errors.New("pool: unexpected reply to merged commands")

// mergedAcquireError returns the error of an acquire whose call was answered by an error. Unless the
// error's code proves that the script wrote nothing, the acquire may have been executed. A permission
// proves nothing: it may be missing for the key of another acquire only.
func mergedAcquireError(err error, password string) error {
	if e := resp.Clean(resp.Withhold(err, password)); !resp.Unexecuted(e) || reply.Denied(e) {
		return e // no redis.Error, which Decode would sort
	}
	return err
}

// mergedReplyValid reports whether v is a reply to a call of all these commands: their number, or one
// value for each.
func mergedReplyValid(all []*command.Command, v any) bool {
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
	return reply.Decode(c, v, nil, "").Outcome != command.Unknown
}

// mergedResult returns the reply that the command i would have had by itself.
func mergedResult(v any, i int) (any, error) {
	const missing, one, unknown, awaited = int64(0), int64(1), int64(3), int64(5)
	switch v := v.(type) {
	case []byte: // see decodeRelease in internal/reply
		return [...]any{missing, one, awaited, unknown}[v[i]-'0'], nil
	case []any:
		if err, ok := v[i].(redis.Error); ok {
			return nil, err
		}
		return v[i], nil
	}
	return one, nil
}

// afterFailedMerge decides how the connection sends later commands of this kind. After an error of the
// server's state they are merged as before. After any other error, such as a missing right or CROSSSLOT,
// none is.
func (pc *pipeConn) afterFailedMerge(kind command.MergeKind, err error) {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	state := &pc.merge[kind]
	switch {
	case strings.HasPrefix(err.Error(), command.NoMerging):
		state.on = false
	case resp.Code(err) == "NOSCRIPT":
		state.evalNext = true
	case reply.Denied(err) || !resp.Unexecuted(err) || resp.Code(err) == "CROSSSLOT":
		state.on = false
	}
}
