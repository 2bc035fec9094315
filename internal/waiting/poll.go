package waiting

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// MaxPollPause bounds the time between the polls of a subscribed waiter, because announcements may
// be lost (docs/dev/hazards.md H82).
const MaxPollPause = time.Second

// Clients of other libraries do not announce releases. Waiters then poll as often as redsync does,
// so that both kinds of clients get the lock equally often.
const (
	MinForeignPause = 50 * time.Millisecond
	MaxForeignPause = 250 * time.Millisecond
)

// poll queries every node for the existence and the TTL of the names' keys. It costs a node one
// command for each name. It is never a vote and changes no validity. It only shows whether an
// attempt can succeed.
type poll struct {
	waiter *Waiter
	failed []bool            // by node: it also failed in the last attempt
	reqs   []command.Request // by name
	cmds   []command.Command // by name and node

	// Guarded by Table.mu:
	blocked    []clock.Instant // by node: until when it cannot grant; 0: not blocked
	unanswered []int           // by node: number of names
}

// whileHeld waits while the names are held and releases are announced. It returns after an
// announcement or a handoff, when the keys have expired, or when a poll finds that an attempt can
// succeed. With pollAtOnce the first poll is immediate, because a release may have been missed.
func (w *Waiter) whileHeld(seen Contention, pollAtOnce bool) (attempt *vote.Round, woken Reason, err error) {
	expiry := never
	if seen.FreeIn >= 0 {
		expiry = w.table.now().Add(seen.FreeIn + ExpiryMargin)
	}
	longest := w.table.maxPause()
	pause := longest*3/4 + rand.N(longest/4) // spreads waiters that were woken together
	if seen.Assumed {                        // the expiry of the keys is not known
		pause = shortPause()
	}
	for {
		if !pollAtOnce {
			if seen.Foreign {
				pause = max(w.table.cfg.Backoff.Min, shortPause())
			}
			w.rearm()
			attempt, woken, err = w.parkUntil(expiry, pause, ByPoll)
			if attempt != nil || err != nil || woken > BySubscription || woken == ByExpiry && !w.holderRenewing {
				return attempt, woken, err
			}
		}
		if !w.listens() {
			return nil, ByPoll, nil
		}
		w.rearm() // all nodes may answer before the waiter parks
		p := w.startPoll()
		attempt, woken, err = w.parkUntil(expiry, w.table.cfg.PollTimeout, byAnswer)
		if attempt != nil || err != nil || woken > BySubscription {
			return attempt, woken, err
		}
		blocked := w.endPoll(p)
		w.contender.Polled(blocked)
		until, free := p.freeAt(blocked)
		if free || until == never && expiry != never { // may not be a lock
			return nil, ByPoll, nil
		}
		w.contender.StillHeld()
		expiry = until
		pollAtOnce, pause = false, longest*31/32
	}
}

// shortPause returns the time until a poll where no announcement may come, or where nothing is known of the holder.
func shortPause() time.Duration { return MinForeignPause + rand.N(MaxForeignPause-MinForeignPause) }

// maxPause returns the longest time between two polls of a subscribed waiter.
func (t *Table) maxPause() time.Duration { return max(MaxPollPause, t.cfg.Backoff.Max) }

// parkUntil parks for d, with the reason timed, or until the keys expire if that is sooner. If the
// holder keeps extending them it waits for the poll instead.
func (w *Waiter) parkUntil(expiry clock.Instant, d time.Duration, timed Reason) (*vote.Round, Reason, error) {
	if left := expiry.Sub(w.table.now()); left < d && !w.holderRenewing {
		d, timed = max(left, 1), ByExpiry
	}
	return w.park(d, timed)
}

// rearm discards the last wake-up, unless it still calls for an attempt.
func (w *Waiter) rearm() {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if w.woken <= BySubscription {
		w.dropWakeupLocked()
	}
}

// startPoll submits a poll to all nodes.
func (w *Waiter) startPoll() *poll {
	cfg := &w.table.cfg
	n, now := len(cfg.Nodes), w.table.now()
	p := &poll{
		waiter: w, failed: w.contender.Failed(),
		reqs: make([]command.Request, len(w.names)), cmds: make([]command.Command, n*len(w.names)),
		blocked: make([]clock.Instant, n), unanswered: make([]int, n),
	}
	w.table.mu.Lock()
	w.poll = p
	for i := range p.unanswered {
		p.unanswered[i] = len(w.names)
	}
	w.table.mu.Unlock()
	for k, name := range w.names {
		r, args := &p.reqs[k], &command.LockArgs{}
		args.Set([]string{cfg.Prefix + name}, "")
		command.NewPoll(r, args)
		r.NodeSet, r.Clock, r.NotAfter = cfg.Set, cfg.Clock, now.Add(cfg.PollTimeout)
		for i, node := range cfg.Nodes {
			c := &p.cmds[k*n+i]
			c.Fill(r, i, p)
			node.Submit(c)
		}
	}
	return p
}

// Answer records a node's answer about one name. A node that does not vote counts as blocked only
// if it also failed in the last attempt. Otherwise an attempt must find out and report the failure.
func (p *poll) Answer(c *command.Command, rep command.Reply) {
	w := p.waiter
	t := w.table
	now, left := t.now(), time.Duration(0)
	switch {
	case rep.Outcome == command.Refused:
		left = rep.Left + ExpiryMargin
		if rep.Left < 0 {
			left = NoExpiry
		}
	case rep.Outcome == command.Failed && p.failed[c.Node]:
		left = t.cfg.OutageLeft(rep.Err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case left == NoExpiry:
		p.blocked[c.Node] = never
	case left > 0:
		p.blocked[c.Node] = max(p.blocked[c.Node], now.Add(left))
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
	return blocking+open <= p.spare() || !slices.ContainsFunc(p.unanswered, func(n int) bool { return n > 0 })
}

// spare returns how many nodes are not needed for a quorum.
func (p *poll) spare() int { return len(p.blocked) - quorum.Majority(len(p.blocked)) }

// endPoll returns, by node, until when it cannot grant the names. A node that did not answer blocks
// nothing.
func (w *Waiter) endPoll(p *poll) (blocked []clock.Instant) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return slices.Clone(p.blocked)
}

// freeAt reports whether an attempt can succeed. If not, it returns until when none can without a
// release.
func (p *poll) freeAt(blocked []clock.Instant) (at clock.Instant, now bool) {
	until := slices.DeleteFunc(slices.Clone(blocked), func(until clock.Instant) bool { return until == 0 })
	over := len(until) - p.spare()
	if over <= 0 {
		return 0, true
	}
	slices.Sort(until)
	return until[over-1], false
}
