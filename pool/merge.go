package pool

import (
	"strings"

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

// handleMergedReply answers the commands of one call, of which first is the first, or sends them again. It
// returns the error with which the connection ends if the reply makes no sense.
func (pc *pipeConn) handleMergedReply(first *command.Command, v any, err error) (nonsense error) {
	pc.oneCall = append(pc.oneCall[:0], first)
	for len(pc.oneCall) < int(first.Merged) {
		pc.oneCall = append(pc.oneCall, pc.nextAnswered()) // all were written together
	}
	if err != nil {
		pc.afterFailedMerge(first.MergeKind(), resp.Clean(err))
		pc.pipeline.node.count.unmerged.Add(int64(len(pc.oneCall)))
	}
	pc.parts, nonsense = reply.Merged(pc.parts[:0], pc.oneCall, v, err)
	for i, p := range pc.parts {
		if c := pc.oneCall[i]; p.Again {
			c.MarkResend()
			pc.pipeline.requeue(c)
		} else {
			pc.handleReply(c, p.Value, p.Err)
		}
	}
	clear(pc.oneCall) // as nextAnswered does
	clear(pc.parts)
	return nonsense
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
