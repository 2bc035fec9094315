package waiting

import (
	"math/rand/v2"
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
	table     *Table
	concluded func(*poll) // called under Table.mu, by each answer from which on the answers suffice

	failed []bool            // by node: it also failed in the last attempt
	until  clock.Instant     // it waits for answers until then
	reqs   []command.Request // by name
	cmds   []command.Command // by name and node
	only   *command.Request  // of the only name that the waiter awaits; nil: of all

	// Guarded by Table.mu:
	held       []clock.Instant // by node: until when it cannot grant; 0: not blocked
	blocked    []clock.Instant // the same for the awaited names alone
	unanswered []int           // by node: number of names
}

// newPoll makes a poll for a waiter that awaits all of the names or one. failed reports which nodes failed in its last attempt.
func newPoll(t *Table, names, awaits []string, failed []bool, concluded func(*poll)) *poll {
	cfg := &t.cfg
	n := len(cfg.Nodes)
	p := &poll{
		table: t, concluded: concluded, failed: failed, until: t.now().Add(cfg.PollTimeout),
		reqs: make([]command.Request, len(names)), cmds: make([]command.Command, n*len(names)),
		held: make([]clock.Instant, n), blocked: make([]clock.Instant, n), unanswered: slices.Repeat([]int{len(names)}, n),
	}
	for k, name := range names {
		r, args := &p.reqs[k], &command.LockArgs{}
		args.Set([]string{cfg.Prefix + name}, "")
		command.NewPoll(r, args)
		r.NotAfter = p.until
		for i := range n {
			p.cmds[k*n+i].Fill(r, i, p)
		}
		if len(awaits) < len(names) && name == awaits[0] {
			p.only = r
		}
	}
	return p
}

// send sends it to all nodes.
func (p *poll) send() {
	for i := range p.cmds { // all nodes may answer before the waiter parks
		c := &p.cmds[i]
		command.Submit(p.table.cfg.Nodes[c.Node], c)
	}
}

// Answer records a node's answer about one name. A node that does not vote counts as blocked only
// if it also failed in the last attempt. Otherwise an attempt must find out and report the failure.
func (p *poll) Answer(c *command.Command, rep command.Reply) {
	t := p.table
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
	p.unanswered[c.Node]--
	if p.conclusiveLocked() {
		p.concluded(p)
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

// pollPause returns the time to the next poll. soon is for a holder that may not announce its release, or of which
// nothing is known. The first pause spreads waiters that were woken together, and no pause is always the same, so
// that polls do not always meet the holds of another process.
func (t *Table) pollPause(first, soon bool) time.Duration {
	switch longest := t.maxPause(); {
	case soon:
		return max(t.cfg.Backoff.Min, MinForeignPause+rand.N(MaxForeignPause-MinForeignPause))
	case first:
		return longest*3/4 + rand.N(longest/4)
	default:
		return longest*15/16 + rand.N(longest/16)
	}
}

// maxPause returns the longest time between two polls of a subscribed waiter.
func (t *Table) maxPause() time.Duration { return max(MaxPollPause, t.cfg.Backoff.Max) }
