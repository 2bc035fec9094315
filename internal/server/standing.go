package server

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// How often a connection's server is checked by INFO: REPLICAOF by hand keeps connections open, and a repaired server should soon
// vote again (docs/dev/rules.md rule 18).
const (
	healthyEvery   = 10 * time.Second
	unhealthyEvery = time.Second
)

// standing is what is known of a server: which commands are sent to it, and whether it votes (docs/dev/rules.md rules 15 to 18). It
// is told what the server says, and has INFO and VerifyMarker sent when they are due. Package session decides. It outlives
// connections, of which there is at most one at a time.
type standing struct {
	cfg  *Config
	wake signal.Signal // of the writer

	// What the fields below said when they changed last, so that asking takes no mutex.
	verdict atomic.Pointer[verdict] // nil without a connection
	wanted  atomic.Bool             // the writer is to send what first returns

	mu     sync.Mutex      // guards what follows. No command is answered under it.
	conn   *transport.Conn // nil without a connection
	state  session.State
	marker session.Marker
	check  check
	byText bool        // the server does not know the script of VerifyMarker
	held   []heldReply // replies that wait for the answer to a VerifyMarker
	timer  timer.Alarm // of tick
}

// check is when a connection's server is asked by INFO. At most one is under way: on a frozen server they must not pile up.
type check struct {
	due    clock.Instant // 0 while one is wanted or under way
	wanted bool
	soon   bool // one is wanted or under way, or the next one comes within unhealthyEvery
}

// heldReply is a command that found another marker than the expected one, and its reply, which still lacks the reason.
type heldReply struct {
	command *command.Command
	reply   command.Reply
}

// verdict is what is known of a connection's server at one moment. It does not change.
type verdict struct {
	address string // the one that Sentinels named
	state   session.State
	marker  session.Marker
}

// begin is told that a connection begins, before it has a writer.
func (s *standing) begin(conn *transport.Conn, f session.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.state, s.byText = conn, session.NewState(s.cfg.Label, f, s.cfg.Faults), false
	s.marker.Connected()
	s.checkLaterLocked()
	s.changedLocked()
}

// end is told that the connection has ended, before the next one is dialled. The server's run ID becomes free, so the next
// connection, perhaps by another node name, can register it.
func (s *standing) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.state.RunID(); id != "" {
		s.cfg.Member().Servers.Leave(id)
	}
	s.conn = nil
	s.changedLocked()
}

// changedLocked publishes what is known, sets the timer to what is due next, and wakes the writer if it has to ask something.
func (s *standing) changedLocked() {
	if s.conn == nil {
		s.verdict.Store(nil)
		s.wanted.Store(false)
		s.timer.Stop()
		return
	}
	s.verdict.Store(&verdict{s.conn.Address, s.state, s.marker})
	wanted := s.check.wanted || s.marker.Wanted()
	s.wanted.Store(wanted)
	if wanted {
		s.wake.Set()
	}
	due := s.check.due
	if m := s.marker.Due(); m != 0 && (due == 0 || m < due) {
		due = m
	}
	if due != 0 {
		s.timer.Set(s.cfg.Settings.Clock, max(0, due.Sub(s.cfg.Settings.Clock.Now())), s.tick)
	}
}

// tick is the timer's function. It may come late, for a connection that has ended.
func (s *standing) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Settings.Clock.Now()
	if s.check.due != 0 && !now.Before(s.check.due) {
		s.check = check{wanted: true, soon: true}
	}
	if due := s.marker.Due(); due != 0 && !now.Before(due) {
		s.marker.Tick()
	}
	s.changedLocked()
}

// checkLaterLocked sets the time of the next check.
func (s *standing) checkLaterLocked() {
	every, soon := healthyEvery, !s.state.Sound()
	if soon {
		every = unhealthyEvery
	}
	s.check = check{due: s.cfg.Settings.Clock.Now().Add(every), soon: soon}
}

// admits returns why a command is not sent: the server is unfit, fails its health checks, has another marker, or votes under
// another name. The first command registers the server, before its first vote. Without a connection it admits all: the writer of
// the next one asks again.
func (s *standing) admits(c *command.Command) error {
	v := s.verdict.Load()
	if v == nil || session.Exempt(c.Op) {
		return nil
	}
	// Before everything else: no setting makes an exception from the Sentinels' majority.
	if err := s.cfg.MayVote(v.address); err != nil {
		return err
	}
	member := s.cfg.Member()
	register, err := v.state.Admit(c, member)
	switch {
	case err != nil:
		return err
	case c.Op == command.Poll && v.marker.NotVoting():
		return s.whyNotVoting(&v.marker, s.cfg.Settings.Clock.Now())
	case register:
		return s.register(member)
	}
	return nil
}

// register has the server vote for the Locker under the name of this node. It returns an error if another node of the Locker uses the
// server: it would vote twice.
func (s *standing) register(m *command.Membership) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.state.RunID() != "" {
		return nil // it was registered meanwhile, or the writer of the next connection asks again
	}
	f := s.state.Facts()
	if err := m.Servers.Join(f.RunID, s.cfg.Name); err != nil {
		return err
	}
	s.state.Registered()
	s.cfg.noteForgetful(s.cfg.Label, f.Facts)
	s.changedLocked()
	return nil
}

// rejecting returns why the server does not vote although commands are sent to it: it answered the last acquire by an error. Without a
// connection it returns ErrConnecting.
func (s *standing) rejecting() error {
	v := s.verdict.Load()
	if v == nil {
		return ErrConnecting
	}
	return v.state.Rejecting()
}

// failing reports whether the server answers by errors, and unfit whether it does not vote by its facts.
func (s *standing) failing() (failing, unfit bool) {
	v := s.verdict.Load()
	if v == nil {
		return false, false
	}
	return v.state.Failing(), v.state.Unfit()
}

// roleChanged reports whether an error shows that the server is no longer what it was. Only the reader calls it.
func (s *standing) roleChanged(err error) bool { return s.verdict.Load().state.RoleChanged(err) }

// first returns what the writer has to send in front of all others, if something is wanted. Only the writer calls it.
func (s *standing) first() (all []*command.Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marker.Wanted() {
		all = append(all, s.verifyLocked())
	}
	if s.check.wanted {
		s.check.wanted = false
		r := &command.Request{}
		command.NewInfo(r)
		c := &command.Command{Request: r}
		c.MarkSent()
		all = append(all, c)
	}
	s.changedLocked()
	return all
}

// precede returns the VerifyMarker that has to be sent before a guarded command, or nil. The order matters: the server executes
// commands in the order of the connection, so the marker is verified before the command that depends on it. Only the writer
// calls it.
func (s *standing) precede(c *command.Command) *command.Command {
	v := s.verdict.Load()
	precedes := v.marker.Precedes(c.Op)
	if v.marker.Expected() != nil && !precedes {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var verify *command.Command
	if s.identifyLocked(); precedes {
		verify = s.verifyLocked()
	}
	s.changedLocked()
	return verify
}

// expected returns the marker with which the scripts of this connection compare. Only the writer calls it.
func (s *standing) expected() any { return s.verdict.Load().marker.Expected() }

// identifyLocked has the marker made with which scripts compare, at the first use of the guard: by then the node has its Locker.
func (s *standing) identifyLocked() {
	if s.marker.Expected() == nil {
		s.marker.Identify(s.cfg.Member().Guard, s.cfg.Name, s.cfg.Proxied, s.state.Facts(), s.cfg.Settings.Clock.Now())
	}
}

// verifyLocked makes a VerifyMarker that goes out with this batch: no other goroutine can cancel it.
func (s *standing) verifyLocked() *command.Command {
	s.identifyLocked()
	r := &command.Request{}
	command.NewVerifyMarker(r, s.cfg.Member().Guard, s.cfg.Name, s.marker.Ask(s.cfg.Settings.Clock.Now()))
	c := &command.Command{Request: r, To: s}
	if s.byText {
		c.UnmarkForEval()
	}
	c.MarkSent()
	return c
}

// Answer is told the answer to a VerifyMarker, and answers the replies that waited for it.
func (s *standing) Answer(_ *command.Command, r command.Reply) {
	now := s.cfg.Settings.Clock.Now()
	s.mu.Lock()
	conn, outdated := s.conn, false
	if r.Outcome == command.Granted {
		outdated = s.marker.Answered(r.MarkerStatus, now)
	} else {
		s.marker.Failed(r.Err)
	}
	why := s.whyNotVoting(&s.marker, now)
	held := s.held
	s.held = nil
	s.changedLocked()
	s.mu.Unlock()
	// Before the replies that waited are answered, so the attempts that follow wait for the next connection.
	if outdated {
		conn.End(errRoleChanged)
	}
	// Each gets the reason that was determined above, at one instant for all.
	for _, h := range held {
		h.reply.Err = why
		h.command.Answer(h.reply)
	}
}

// unanswered is told that the connection has ended, and what becomes of a command without an answer. A VerifyMarker may have been
// wanted and not sent, so that the replies that wait for it get no other answer.
func (s *standing) unanswered(lost command.Reply) { s.Answer(nil, lost) }

// unscripted is told that the server does not know the script of a VerifyMarker, and so executed nothing. Another one goes out by the
// text, and not the same: on another connection it would say too much about a quarantine.
func (s *standing) unscripted(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byText = true
	s.marker.Failed(err)
	s.marker.Want()
	s.changedLocked()
}

// unmarked is told that a command found another marker than the expected one, and answers it with the reason. If the reason is not
// known yet it has the server asked and keeps the reply until the answer, so that the first attempt after a restart reports how long
// the node is quarantined.
func (s *standing) unmarked(c *command.Command, r command.Reply) {
	s.mu.Lock()
	waits := s.marker.Unmarked()
	if waits {
		s.held = append(s.held, heldReply{c, r})
	} else {
		r.Err = s.whyNotVoting(&s.marker, s.cfg.Settings.Clock.Now())
	}
	s.changedLocked()
	s.mu.Unlock()
	if !waits {
		c.Answer(r)
	}
}

// whyNotVoting returns why the server does not vote under the restart guard.
func (s *standing) whyNotVoting(m *session.Marker, now clock.Instant) error {
	if left, ok := m.Quarantine(now); ok {
		return s.cfg.Quarantined(left)
	}
	return m.Why()
}

// checked is told the reply to INFO. After a check that succeeded it also has the server asked for the marker of the restart guard: an
// emptied server answers INFO as before.
func (s *standing) checked(reply any, err error) {
	s.mu.Lock()
	conn, outdated := s.conn, s.state.Checked(reply, err)
	s.checkLaterLocked()
	if !s.state.Failing() && s.marker.Asked() {
		s.marker.Want()
	}
	s.changedLocked()
	s.mu.Unlock()
	if outdated {
		conn.End(errRoleChanged)
	}
}

// voted is told the answer to an acquire. An error has the server checked soon: its state may have changed. Only the reader calls
// it, so the usual case takes no mutex.
func (s *standing) voted(r command.Reply) {
	var why error
	if r.Outcome != command.Granted && r.Outcome != command.Refused {
		why = r.Err
	}
	if why == nil && s.verdict.Load().state.Rejecting() == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Acquired(why)
	if why != nil && !s.check.soon {
		s.check = check{due: s.cfg.Settings.Clock.Now().Add(unhealthyEvery), soon: true}
	}
	s.changedLocked()
}

// isUnmarked reports whether a command found another marker than the expected one.
func isUnmarked(c *command.Command, r command.Reply) bool {
	return c.Guarded && r.Err != nil && (resp.Code(r.Err) == "UNMARKED" || errors.Is(r.Err, command.ErrUnmarked))
}
