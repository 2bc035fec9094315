package server

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// link is one connection of a server: it reads the replies, and answers the commands. Its writer is the goroutine that calls run:
// it writes what waited for the dial as soon as the handshake is over. Its reader is a second goroutine. The reader alone reads, and
// the writer alone writes. transport.Conn.End ends both.
type link struct {
	server *Server
	conn   *transport.Conn
	facts  session.Facts // what the greeting read

	flight *flight
	writer *writer

	// The reader's:
	oneCall []*command.Command // of handleMerged,
	parts   []reply.Part       // and what its reply means for each
	nothing undo.Nothing
}

// newLink returns the link of a connection whose handshake is over.
func newLink(s *Server, conn *transport.Conn, f session.Facts) *link {
	l := &link{server: s, conn: conn, facts: f, flight: newFlight()}
	l.writer = newWriter(l)
	return l
}

// run writes until the connection ends, waits for the reader, and returns the reason.
func (l *link) run() error {
	l.conn.Start()
	// The reader starts only now: the handshake, which read before, is over.
	var reader sync.WaitGroup
	reader.Go(func() { l.conn.End(l.read()) })
	l.writer.run()
	reader.Wait()
	return l.conn.Err()
}

// read matches replies to commands in their order, until the connection ends.
func (l *link) read() error {
	for {
		r, err := l.conn.Receive()
		if err != nil {
			return err
		}
		c := l.next()
		if c.Merged > 0 {
			if err := l.handleMerged(c, r.Value, r.Err); err != nil {
				return err // nor can any later reply be trusted
			}
			continue
		}
		l.handle(c, r.Value, r.Err)
	}
}

// next returns the command of the next reply, which was written: Receive counts.
func (l *link) next() *command.Command {
	l.server.Answered.Add(1)
	return l.flight.next()
}

// handle turns the reply to a command into an answer, or sends the command again.
//
// The order of the steps matters. A change of role ends the connection before the answer, so the
// caller's next command waits for the next dial. A redirected command has no answer yet. A stale
// grant of a former master becomes Unknown before anything else looks at the outcome. A script
// that the server does not know goes out again by its text. An undo is scheduled for a retry
// before its answer, because the answer says whether another one follows.
func (l *link) handle(c *command.Command, v any, err error) {
	s := l.server
	if err != nil && c.Retries == 0 && s.standing.roleChanged(err) { // before the answer, so that the caller's next command waits for the dial
		l.conn.End(fmt.Errorf("%w (%w)", errRoleChanged, resp.Clean(err)))
	}
	if c.Op == command.Info {
		l.nothing.Forget(s.cfg.now())
		s.standing.checked(v, err)
		c.Answer(command.Reply{Outcome: command.Granted})
		return
	}
	var shown error
	if err != nil && s.cfg.Redirect != nil {
		var taken bool
		if taken, shown = s.cfg.Redirect(c, err); taken {
			return // it belongs to another server and must not be touched
		}
	}
	r := l.counted(c, reply.Decode(c, v, err))
	r.Err = cmp.Or(shown, r.Err)
	if unscripted(c, r) {
		l.writer.forgot.Store(true)
		if c.Op == command.VerifyMarker {
			s.standing.unscripted(r.Err)
			return
		}
		if c.UnmarkForEval() {
			s.queue.again(c)
			return
		}
	}
	if r.Outcome == command.Failed && !s.cfg.Proxied { // a proxy may have sent it to another server, too
		l.nothing.Failed(c, s.cfg.now()) // this answer is its last
	}
	if isUnmarked(c, r) {
		s.standing.unmarked(c, r)
		return
	}
	if c.Op == command.Acquire {
		s.standing.voted(r)
	}
	if c.Op.Undoes() {
		r.Retrying = s.ledger.answered(c, r, l.nothing.Undone(c))
	}
	if r.Outcome == command.Refused && c.WasResent() {
		// The first sending may have undone what is missing now.
		r = command.Reply{Outcome: command.Unknown, Undone: true, Err: ErrDisconnected}
	}
	c.Answer(r)
}

// counted turns a grant into Unknown if its server may not vote any more when it arrives. It might vote when the command was sent, and
// the validity counts from before that, so accepting the grant would be safe today. But every future use of a grant would have to
// keep it safe.
func (l *link) counted(c *command.Command, r command.Reply) command.Reply {
	if r.Outcome != command.Granted || !countsAsVote(c) {
		return r
	}
	if err := l.server.cfg.MayVote(l.conn.Address); err != nil {
		return command.Reply{Outcome: command.Unknown, Err: err}
	}
	return r
}

// countsAsVote reports whether a command's answer counts towards a quorum of a lock.
func countsAsVote(c *command.Command) bool {
	switch c.Op {
	case command.Acquire, command.Confirm, command.Repair, command.Extend, command.Inspect, command.Ping:
		return true
	}
	return false
}

// unscripted reports that the server does not know the script's hash (yet), and so executed
// nothing.
func unscripted(c *command.Command, r command.Reply) bool {
	return r.Outcome == command.Failed && c.Scripted() && !c.UsesEval() && resp.Code(r.Err) == "NOSCRIPT"
}

// handleMerged answers the commands of one call, of which first is the first, or sends them again. It
// returns the error with which the connection ends if the reply makes no sense.
func (l *link) handleMerged(first *command.Command, v any, err error) (nonsense error) {
	l.oneCall = append(l.oneCall[:0], first)
	for len(l.oneCall) < int(first.Merged) {
		l.oneCall = append(l.oneCall, l.next()) // all were written together
	}
	if err != nil {
		l.writer.merger.failed(first.MergeKind(), resp.Clean(err))
		l.server.Unmerged.Add(int64(len(l.oneCall)))
	}
	l.parts, nonsense = reply.Merged(l.parts[:0], l.oneCall, v, err)
	for i, p := range l.parts {
		if c := l.oneCall[i]; p.Again {
			c.MarkResend()
			l.server.queue.again(c)
		} else {
			l.handle(c, p.Value, p.Err)
		}
	}
	// They must not keep the commands, and with them locks, alive.
	clear(l.oneCall)
	clear(l.parts)
	return nonsense
}
