package waiting

import (
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/verdict"
)

// poll queries every node for the existence and the TTL of the names' keys. It costs a node one
// command for each name. It is never a vote and changes no validity. It only shows whether an
// attempt can succeed.
type poll struct {
	waiter *Waiter
	failed []bool            // by node: it also failed in the last attempt
	until  clock.Instant     // it waits for answers until then
	reqs   []command.Request // by name
	cmds   []command.Command // by name and node
	only   *command.Request  // of the only name that the waiter awaits; nil: of all

	// Guarded by Table.mu:
	held       []clock.Instant // by node: until when it cannot grant; 0: not blocked
	blocked    []clock.Instant // the same for the awaited names alone
	unanswered []int           // by node: number of names
	voting     quorum.Nodes    // have answered by a vote
}

// newPoll makes a poll for a waiter. failed reports which nodes failed in its last attempt.
func newPoll(w *Waiter, failed []bool) *poll {
	cfg := &w.table.cfg
	n := len(cfg.Nodes)
	p := &poll{
		waiter: w, failed: failed, until: w.table.now().Add(cfg.PollTimeout),
		reqs: make([]command.Request, len(w.names)), cmds: make([]command.Command, n*len(w.names)),
		held: make([]clock.Instant, n), blocked: make([]clock.Instant, n), unanswered: slices.Repeat([]int{len(w.names)}, n),
	}
	for k, name := range w.names {
		r, args := &p.reqs[k], &command.LockArgs{}
		args.Set([]string{cfg.Prefix + name}, "")
		command.NewPoll(r, args)
		r.NotAfter = p.until
		for i := range n {
			p.cmds[k*n+i].Fill(r, i, p)
		}
		if len(w.awaits) < len(w.names) && name == w.awaits[0] {
			p.only = r
		}
	}
	return p
}

// begin sends it to all nodes. It is the poll of its waiter from then on.
func (p *poll) begin() {
	w, t := p.waiter, p.waiter.table
	t.mu.Lock()
	w.poll = p
	w.look.poll(p.until)
	if w.woken <= BySubscription { // the poll finds what woke it
		w.woken = none
		w.wake.Clear()
	}
	t.mu.Unlock()
	for i := range p.cmds { // all nodes may answer before the waiter parks
		c := &p.cmds[i]
		command.Submit(t.cfg.Nodes[c.Node], c)
	}
}

// end looks at the answers, and returns what the waiter does next.
func (p *poll) end() step {
	w, t := p.waiter, p.waiter.table
	next := t.now().Add(t.pollPause(false, w.seen.foreign))
	t.mu.Lock()
	held := slices.Clone(p.held)
	if t.isMajority(p.voting) {
		w.noteOutageLocked(nil)
	}
	expiry, free := freeAt(p.blocked)
	s := w.look.answered(free, expiry, next)
	if w.poll = nil; w.woken == byAnswer {
		w.woken = none
	}
	t.mu.Unlock()
	w.contender.Polled(held, s == sleeps)
	return s
}

// Answer records a node's answer about one name. A node that does not vote counts as blocked only
// if it also failed in the last attempt. Otherwise an attempt must find out and report the failure.
func (p *poll) Answer(c *command.Command, rep command.Reply) {
	w := p.waiter
	t := w.table
	now, left, until := t.now(), time.Duration(0), clock.Instant(0)
	switch {
	case rep.Outcome == command.Refused:
		left = rep.Left + ExpiryMargin
		if rep.Left < 0 {
			left = verdict.NoExpiry
		}
	case rep.Outcome == command.Failed && p.failed[c.Node]:
		left = t.cfg.OutageLeft(rep.Err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case left == verdict.NoExpiry:
		until = never
	case left > 0:
		until = now.Add(left)
	}
	if p.held[c.Node] = max(p.held[c.Node], until); p.only == nil || p.only == c.Request {
		p.blocked[c.Node] = max(p.blocked[c.Node], until)
	}
	if rep.Outcome == command.Granted || rep.Outcome == command.Refused {
		p.voting = p.voting.With(int(c.Node))
	}
	p.unanswered[c.Node]--
	if w.poll == p && p.conclusiveLocked() {
		w.wakeLocked(byAnswer)
	}
}

// conclusiveLocked reports whether all nodes have answered, or enough of them that the others cannot
// block an attempt.
func (p *poll) conclusiveLocked() bool {
	open, blocking := 0, 0
	for i, until := range p.blocked {
		switch {
		case until != 0:
			blocking++
		case p.unanswered[i] > 0:
			open++
		}
	}
	return blocking+open <= spare(len(p.blocked)) || !slices.ContainsFunc(p.unanswered, func(n int) bool { return n > 0 })
}

// spare returns how many of n nodes are not needed for a quorum.
func spare(n int) int { return n - quorum.Majority(n) }

// freeAt reports whether an attempt can succeed. If not, it returns until when none can without a
// release.
func freeAt(blocked []clock.Instant) (at clock.Instant, now bool) {
	until := slices.DeleteFunc(slices.Clone(blocked), func(until clock.Instant) bool { return until == 0 })
	over := len(until) - spare(len(blocked))
	if over <= 0 {
		return 0, true
	}
	slices.Sort(until)
	return until[over-1], false
}
