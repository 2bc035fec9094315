package pool

import (
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
)

// Most of what a release costs a server is to begin a script. So a batch's releases of one name each
// are sent as one call, behind the batch's other commands. Each is answered as if it was sent by
// itself. See ADR 17.

// mergeState says how a connection sends releases. It is guarded by pipeline.mu.
type mergeState struct {
	on       bool // releases are merged
	evalNext bool // the server does not know the script: the next call sends its text
}

func newMergeState(n *Node) mergeState {
	return mergeState{on: !n.cfg.SeparateReleases && !n.cfg.Proxied && n.kind.severalSlots()}
}

// setAsideLocked sets a release aside that can be merged with others of this batch, and returns true.
// A release may be sent later than it was queued, but never behind a command for the same key: such
// a command first has those that were set aside appended to the batch.
func (pc *pipeConn) setAsideLocked(c *command.Command) bool {
	mergeable := pc.merge.on && c.Mergeable()
	if len(pc.merging) > 0 {
		for _, key := range c.Keys {
			if _, ok := pc.mergingKeys[key]; ok {
				pc.appendMergedLocked()
				break
			}
		}
		// A script serves one Locker: another one may have another waiters' channel.
		mergeable = mergeable && (len(pc.merging) == 0 || pc.merging[0].NodeSet == c.NodeSet)
	}
	if mergeable {
		pc.merging = append(pc.merging, c)
		pc.mergingKeys[c.Keys[0]] = struct{}{}
	}
	return mergeable
}

// appendMergedLocked puts the releases that were set aside into the batch.
func (pc *pipeConn) appendMergedLocked() {
	for i, c := range pc.merging {
		n := min(len(pc.merging)-i, command.MaxMerged)
		switch first := i%command.MaxMerged == 0; {
		case first && n > 1:
			c.Merged = uint8(n) //nolint:gosec // at most MaxMerged
			pc.evalMerged, pc.merge.evalNext = pc.evalMerged || pc.merge.evalNext, false
			pc.pipeline.node.count.merged.Add(int64(n))
			pc.appendToBatchLocked(c, nil)
		case first:
			c.Merged = 0
			pc.appendToBatchLocked(c, nil)
		default:
			c.Merged = 0
			pc.pushLocked(c, nil) // part of the call before
		}
	}
	clear(pc.merging) // each command leads to its Locker
	clear(pc.mergingKeys)
	pc.merging = pc.merging[:0]
}

// handleMergedReply answers the releases of one call, of which first is the first. If the server
// answered by an error, each is sent again by itself, with the result of an undo that may have been
// executed before. If the reply makes no sense, nothing is known about any of them, and
// handleMergedReply returns the error with which the connection ends.
func (pc *pipeConn) handleMergedReply(first *command.Command, v any, err error) error {
	n := int(first.Merged)
	ok := mergedReplyValid(v, n)
	if err != nil {
		pc.afterFailedMerge(serverError(err))
		pc.pipeline.node.count.unmerged.Add(int64(n))
		pc.pipeline.node.count.replies.Add(int64(n))
	}
	for i := range n {
		c := first
		if i > 0 {
			c = pc.nextAnswered() // never nil: all were written together
		}
		switch {
		case err != nil:
			c.MarkResend()
			pc.pipeline.requeue(c)
		case !ok:
			pc.handleReply(c, nil, errMergedReply)
		default:
			pc.handleReply(c, mergedResult(v, i), nil)
		}
	}
	if err == nil && !ok {
		return errMergedReply
	}
	return nil
}

var errMergedReply = errors.New("pool: unexpected reply to merged releases")

// mergedReplyValid reports whether v is a reply to n merged releases: n, or one character for each.
func mergedReplyValid(v any, n int) bool {
	text, ok := v.([]byte)
	if !ok {
		return v == int64(n)
	}
	for _, b := range text {
		if b < '0' || b > '2' {
			return false
		}
	}
	return len(text) == n
}

// mergedResult returns the reply that the release i would have had by itself: see decodeRelease.
func mergedResult(v any, i int) any {
	const missing, released, awaited = int64(0), int64(1), int64(3)
	if text, ok := v.([]byte); ok {
		return [...]any{missing, released, awaited}[text[i]-'0']
	}
	return released
}

// afterFailedMerge decides how the connection sends later releases. After an error of the server's
// state they are merged as before. After any other error, such as a missing right or CROSSSLOT, none is.
func (pc *pipeConn) afterFailedMerge(err error) {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	switch {
	case answeredBy(err, "NOSCRIPT"):
		pc.merge.evalNext = true
	case permissionDenied(err) || !saysUnexecuted(err) || answeredBy(err, "CROSSSLOT"):
		pc.merge.on = false
	}
}
