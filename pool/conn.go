package pool

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/transport"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// pipeConn is one connection of a pipeline. Its reader is the goroutine that calls run. Its
// writer is a second goroutine. The reader alone reads, and the writer alone writes. transport.Conn.End ends both.
type pipeConn struct {
	pipeline *pipeline
	raw      *transport.Conn
	state    session.State // changed by the reader, under pipeline.mu

	wake   signal.Signal // wakes the writer: see wakeLocked
	writer sync.WaitGroup

	// Guarded by pipeline.mu:
	woken      bool // the writer will look at the queue, unless the connection is dead
	unanswered ring // written, in order, and not yet taken over by the reader
	guard      guardState
	merge      [command.MergeKinds]mergeState
	loaded     command.ScriptSet // scripts that were loaded on this connection
	checks     checks

	answered atomic.Int64 // commands

	outgoing
	incoming
}

// incoming is the state of the reader, which alone uses it.
type incoming struct {
	answering []*command.Command // written, in order
	next      int                // the first of answering without a reply
	oneCall   []*command.Command // of handleMergedReply,
	parts     []reply.Part       // and what its reply means for each
	nothing   undo.Nothing
}

// newPipeConn makes the pipeConn of a connection whose handshake is over.
func newPipeConn(pl *pipeline, s *transport.Conn, f session.Facts) *pipeConn {
	return &pipeConn{
		pipeline: pl, raw: s, state: session.NewState(pl.node.label, f, pl.node.kind.faults), wake: signal.New(),
		merge: newMergeStates(pl.node),
	}
}

// id identifies the connection on the server.
func (pc *pipeConn) id() undo.Conn {
	f := pc.state.Facts()
	return undo.Conn{ClientID: f.ClientID, RunID: f.RunID}
}

// run reads until the connection ends, waits for the writer, and returns the reason.
func (pc *pipeConn) run() error {
	pc.raw.Start()
	// The writer starts only now: the handshake, which wrote before, is over.
	pc.writer.Go(pc.write)
	pc.raw.End(pc.read())
	pc.writer.Wait()
	return pc.raw.Err()
}

// read matches replies to commands in order, until the connection ends. The order is that of
// unanswered, which takeBatch fills before the bytes are written.
func (pc *pipeConn) read() error {
	for {
		r, err := pc.raw.Receive()
		if err != nil {
			return err
		}
		c := pc.nextAnswered()
		if c.Merged > 0 {
			if err := pc.handleMergedReply(c, r.Value, r.Err); err != nil {
				return err // nor can any later reply be trusted
			}
			continue
		}
		pc.handleReply(c, r.Value, r.Err)
	}
}

// nextAnswered returns the command of the next reply, which was written. It takes over all written
// commands at once, so it needs the mutex once for many replies.
func (pc *pipeConn) nextAnswered() *command.Command {
	if pc.next == len(pc.answering) {
		pc.pipeline.mu.Lock()
		pc.answering, pc.next = pc.unanswered.popAll(pc.answering[:0]), 0
		pc.pipeline.mu.Unlock()
	}
	c := pc.answering[pc.next]
	// The slice is reused, and as long as the longest burst. It must not keep the command, and with it a lock, alive.
	pc.answering[pc.next] = nil
	pc.next++
	pc.answered.Add(1)
	return c
}

// handleReply turns the reply to a command into an answer, or sends the command again.
//
// The order of the steps matters. A change of role ends the connection before the answer, so the
// caller's next command waits for the next dial. A redirected command has no answer yet. A stale
// grant of a former master becomes Unknown before anything else looks at the outcome. A script
// that the server does not know goes out again by its text. An undo is scheduled for a retry
// before its answer, because the answer says whether another one follows.
func (pc *pipeConn) handleReply(c *command.Command, v any, err error) {
	if err != nil && c.Retries == 0 && pc.state.RoleChanged(err) { // before the answer, so that the caller's next command waits for the dial
		pc.raw.End(fmt.Errorf("%w (%w)", errRoleChanged, resp.Clean(err)))
	}
	if c.Op == command.Info {
		pc.onInfo(v, err)
		c.Answer(command.Reply{Outcome: command.Granted})
		return
	}
	// After true the command belongs to another shard and must not be touched.
	kind := pc.pipeline.node.kind
	if err != nil && kind.redirect(pc, c, err) {
		return
	}
	r := kind.checkReply(c, pc.raw.Address, reply.Decode(c, v, err))
	if unscripted(c, r) && c.UnmarkForEval() {
		pc.pipeline.requeue(c)
		return
	}
	pc.noteAcquire(c, r) // this answer is its last
	if isUnmarked(c, r) {
		pc.answerUnmarked(c, r)
		return
	}
	if c.Op == command.Acquire {
		pc.noteVote(r)
	}
	if c.Op.Undoes() {
		nothingToUndo := pc.nothing.Undone(c)
		r.Retrying = pc.pipeline.retry(c, r, nothingToUndo)
	}
	if r.Outcome == command.Refused && c.WasResent() {
		// The first sending may have undone what is missing now.
		r = command.Reply{Outcome: command.Unknown, Undone: true, Err: ErrDisconnected}
	}
	c.Answer(r)
}

// unscripted reports that the server does not know the script's hash (yet), and so executed
// nothing.
func unscripted(c *command.Command, r command.Reply) bool {
	return r.Outcome == command.Failed && c.Scripted() && !c.UsesEval() && resp.Code(r.Err) == "NOSCRIPT"
}

// unansweredCommandsLocked returns the written commands without a reply, in order. It is called
// after the reader and all writers have ended.
func (pc *pipeConn) unansweredCommandsLocked() []*command.Command {
	left := append([]*command.Command(nil), pc.answering[pc.next:]...)
	return pc.unanswered.popAll(left)
}
