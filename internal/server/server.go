package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// Server drives one server: commands go to it in order, over connections that come and go. It dials in the background from Start on,
// and again whenever its connection ends. Undos wait for the next connection. It is safe for concurrent use.
type Server struct {
	Counters

	cfg      *Config
	queue    sendQueue
	standing standing
	ledger   ledger
	link     atomic.Pointer[link] // nil while there is no connection

	life       context.Context // ends with Close
	stop       context.CancelFunc
	serving    sync.WaitGroup // the goroutine that dials and writes
	dialFailed bool           // the last dial failed; only that goroutine uses it
}

// New returns a server that is not dialled before Start.
func New(cfg *Config) *Server {
	s := &Server{cfg: cfg, queue: newQueue(cfg)}
	s.standing.cfg, s.standing.wake = cfg, s.queue.wake
	s.ledger.cfg, s.ledger.queue, s.ledger.standing, s.ledger.up = cfg, &s.queue, &s.standing, s.Up
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Start begins to dial.
func (s *Server) Start() { s.serving.Go(s.run) }

// Up reports whether there is a connection.
func (s *Server) Up() bool { return s.link.Load() != nil }

// Queued returns how many commands wait to be written.
func (s *Server) Queued() int { return s.queue.len() }

// Submit queues a command, and another one right behind it unless that is nil (docs/dev/rules.md rule 23). It returns why it does not
// take them: see command.Node.
//
// While the first dial is in progress, or one after a connection that worked, commands wait for it. After a failed dial they are not
// taken. Undos are kept until they are answered or their NotAfter has passed. An unfit server takes no commands but undos
// (ErrUnfit). While health checks fail, it takes no commands but undos and extensions. Membership.Unsafe makes an exception.
func (s *Server) Submit(c, behind *command.Command) error {
	// What the server is known to be now only saves a wait: the writer asks again.
	unfit := s.standing.admits(c)
	if unfit == nil && behind != nil {
		unfit = s.standing.admits(behind)
	}
	return s.queue.push(c, behind, unfit)
}

// Requeue queues a command once more that a server has taken before. The server takes it in any case.
func (s *Server) Requeue(c *command.Command) { s.queue.again(c) }

// WhyNotVoting returns why the server would not vote now, or nil if it would, as far as is known without asking it. An acquire that it
// answered by an error counts until it answers another one by a vote, or is dialled again.
func (s *Server) WhyNotVoting() error {
	// A server admits a poll only while it votes.
	poll := &command.Command{Request: &command.Request{Op: command.Poll}}
	if err := s.queue.refuses(poll, s.standing.admits(poll)); err != nil {
		return err
	}
	return s.standing.rejecting()
}

// PassedOn is told that another server gets an undo that this one was sent.
func (s *Server) PassedOn(c *command.Command) { s.ledger.passedOn(c) }

// Withdraw removes and returns what is queued, or waits for a retry, and belongs elsewhere. up tells elsewhere whether there is a
// connection. elsewhere is asked under mutexes.
func (s *Server) Withdraw(elsewhere func(c *command.Command, up bool) bool) []*command.Command {
	up := s.Up()
	condition := func(c *command.Command) bool { return elsewhere(c, up) }
	return append(s.queue.removeIf(condition), s.ledger.removeIf(condition)...)
}

// Retire closes the server. It hands to passOn all commands that it has, and sweeps of what they may still make; and later those that
// are queued again. Submit returns ErrRetired. The connection ends before the queue is closed, because an undo without an answer may
// concern a key that another server has now: such undos are kept as for a next connection.
func (s *Server) Retire(passOn func(*command.Command), why error) {
	s.Drain(passOn) // before the goroutines end, which fail what is queued
	s.Stop(why)
	s.Drain(passOn) // the undos without an answer
	s.Close()
}

// Drain hands to passOn all that is queued, parked, or to be swept, and later what would be queued again.
func (s *Server) Drain(passOn func(*command.Command)) {
	queued := s.queue.drain(passOn)
	parked, sweeps := s.ledger.drain()
	for _, c := range slices.Concat(sweeps, queued, parked) {
		passOn(c)
	}
}

// Stop ends the connection, and waits for its goroutines.
func (s *Server) Stop(why error) {
	s.stop() // before the connection is looked for: see serve
	s.EndConn(why)
	s.serving.Wait()
}

// EndConn ends the connection, if there is one.
func (s *Server) EndConn(why error) {
	if l := s.link.Load(); l != nil {
		l.conn.End(why)
	}
}

// Close answers all commands, and returns when the goroutines have ended. It does not wait for the server. It may be called more than
// once.
func (s *Server) Close() {
	s.queue.close()
	for _, c := range s.ledger.close() {
		c.Fail(ErrClosed)
	}
	s.Stop(ErrClosed)
}

// Dial dials, greets the server and reads its facts, in one round trip, or in two where CLIENT INFO tells no ID. If it
// fails, no connection is left.
func (s *Server) Dial(ctx context.Context) (conn *transport.Conn, f session.Facts, err error) {
	if conn, err = s.cfg.Dialer.Dial(ctx); err != nil {
		return nil, f, err
	}
	replies, err := conn.Greet(ctx, session.Questions(!s.cfg.OneSlot)...)
	// What a server says before it closes the connection explains more than the closing.
	err = cmp.Or(f.Read(replies, s.cfg.Settings.Database), err)
	if err == nil && f.ClientID == 0 {
		if replies, err = conn.AskMore(ctx, session.AskID); err == nil {
			f.ReadID(replies[0])
		}
	}
	if err != nil {
		conn.Close()
		return nil, f, err
	}
	return conn, f, nil
}

// run dials, serves the connection, and dials again until the server is closed.
func (s *Server) run() {
	b := transport.NewRedial(s.cfg.Settings)
	b.Run(s.life, func(ctx context.Context) transport.Next { return s.dialAndServe(ctx, b) })
	// On a closed server this also answers the undos, which no connection will send.
	s.failUnsent(ErrClosed)
}

// dialAndServe makes one connection and serves it. The goroutine that calls it is also its writer.
func (s *Server) dialAndServe(ctx context.Context, b *transport.Redial) transport.Next {
	l, err := s.connect(ctx)
	again := s.dialFailed // so the log has it already
	if s.dialFailed = err != nil; err == nil {
		var lived time.Duration
		lived, err = s.serve(l)
		// A short connection counts as a failed dial. The pause then grows, so that a server
		// that accepts connections only to drop them is not dialled without pause.
		well := b.Ended(lived)
		if errors.Is(err, transport.ErrSilent) {
			s.failUnsent(err) // the server may be frozen: nothing suggests that a dial would succeed now
		} else if well {
			// Queued commands remain: failUnsent is not called, and the next dial follows
			// without a pause.
			s.cfg.Ended()
			return transport.AtOnce // most likely a restart: commands wait for one dial
		}
	} else {
		// Only the first of several failed dials is logged, and before what it causes.
		if !again && ctx.Err() == nil {
			s.cfg.Log("dial failed", err)
		}
		// The commands that waited for this dial fail, and further ones fail at once until there
		// is a connection. So a dead node costs a caller no wait.
		s.failUnsent(err)
	}
	// After failUnsent: what does not fail may go to another server of a Cluster.
	s.cfg.Ended()
	return transport.AfterPause
}

// connect dials, does the handshake and ends the dead connections that left acquires unanswered, so
// that no late acquire can be executed behind an undo that is sent on the new connection. The dial
// timeout bounds all of it. Its errors match no context's error, because a caller would take that for
// its own deadline.
func (s *Server) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Settings.DialTimeout)
	defer cancel()
	s.Dials.Add(1)
	conn, f, err := s.Dial(ctx)
	if err == nil {
		// Behind the handshake, which tells the server's run ID, and before the first command.
		if err = s.ledger.endDeadConns(ctx, conn, f); err == nil {
			return newLink(s, conn, f), nil
		}
		conn.Close()
	}
	s.DialFailures.Add(1)
	return nil, transport.WithoutContext(err)
}

// serve runs the connection until it ends, and handles its unanswered commands. It
// reports how long the connection lasted.
func (s *Server) serve(l *link) (lived time.Duration, err error) {
	began := s.cfg.now()
	s.link.Store(l)
	// After the Store: Stop first ends the life, and then looks for a connection. So either it ends this one, or this one is not served.
	if s.life.Err() != nil {
		s.link.Store(nil)
		l.conn.Close()
		return 0, ErrClosed
	}
	s.standing.begin(l.conn, l.facts)
	s.ledger.begin()
	s.queue.begin()
	s.cfg.Log("connected", nil)
	err = l.run()
	if errors.Is(err, transport.ErrOutOfStep) || errors.Is(err, reply.ErrMerged) || errors.Is(err, resp.ErrLimit) {
		s.Violations.Add(1)
	}
	s.link.Store(nil)
	s.queue.end()
	left := s.unanswered(l)
	s.standing.end()
	why := err
	if l.conn.ClosedIdle() {
		why = nil // nothing to warn of
	}
	s.cfg.Log("connection ended", why) // before what it causes
	l.conn.Close()
	// Answered after the undos are queued: what an owner submits when it gets the answer is queued behind them.
	lost := command.Reply{Outcome: command.Unknown, Err: noAnswerReason(err)}
	for _, c := range left {
		c.Answer(lost)
	}
	s.standing.unanswered(lost)
	return s.cfg.now().Sub(began), err
}

// unanswered queues the unanswered undos of an ended connection for the next one. It returns the other unanswered commands and the
// undos that are too late for their owners, which are to be answered as Unknown. The reader and the writer have ended.
func (s *Server) unanswered(l *link) (left []*command.Command) {
	s.ledger.ended()
	closed, now := s.queue.isClosed(), s.queue.now()
	for c := l.flight.next(); c != nil; c = l.flight.next() {
		switch {
		case c.Op.Undoes() && !closed && c.Expired(now): // it might be sent forever otherwise
			s.ledger.undone(c)
		case c.Op.Undoes() && !closed:
			c.MarkResend()
			s.queue.again(c)
			continue
		case c.Op.Creates():
			s.ledger.lost(c, undo.Conn{ClientID: l.facts.ClientID, RunID: l.facts.RunID}) // the server may execute it later
		}
		left = append(left, c)
	}
	return left
}

// failUnsent makes new commands fail at once until there is a connection again, and fails those that wait, but for undos that may be
// needed.
func (s *Server) failUnsent(err error) {
	for _, d := range s.queue.fail(err) {
		if d.command.Op.Undoes() {
			s.ledger.undone(d.command) // its owner gets the answer in time
		}
		d.fail()
	}
}
