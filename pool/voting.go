package pool

import (
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
)

// errConnecting is the reason of a node whose dial may still succeed.
var errConnecting = errors.New("pool: connecting")

// WhyNotVoting asks for the admission of a poll, which a node gets only while it votes.
func (k single) WhyNotVoting() error {
	pl := k.node.pipeline
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if err := pl.rejectReasonLocked(&command.Command{Request: &command.Request{Op: command.Poll}}); err != nil {
		return err
	}
	if pl.conn == nil {
		return errConnecting
	}
	return pl.conn.state.Rejecting()
}

// WhyNotVoting reports the first of the masters that does not vote for its slots.
func (cl *cluster) WhyNotVoting() error {
	cl.mu.Lock()
	closed, mapped, down := cl.closed, cl.hasTopology, cl.down
	cl.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case !mapped && down != nil:
		return down
	case !mapped:
		return errConnecting
	}
	masters, _ := cl.masters()
	for _, sh := range masters {
		if err := sh.WhyNotVoting(); err != nil {
			return err
		}
	}
	return nil
}

// noteVote remembers whether the last acquire was answered by an error, and then has the server
// checked soon. Only the reader calls it, which alone changes the state, so the usual case needs no mutex.
func (pc *pipeConn) noteVote(r command.Reply) {
	var why error
	if r.Outcome != command.Granted && r.Outcome != command.Refused {
		why = r.Err
	}
	if why == nil && pc.state.Rejecting() == nil {
		return
	}
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	pc.state.Acquired(why)
	if why != nil && !pc.checks.soon { // the state of the server may have changed
		pc.checks.soon = true
		pc.checks.timer.Set(pc.pipeline.node.cfg.Clock, unhealthyEvery, pc.check)
	}
}
