package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Check asks a quorum of nodes whether the lock is still held. It takes one round trip and at
// most the node timeout. Call it before a step that cannot be undone: it finds what no local
// clock can, for example a key that was deleted, or one that expired early because a node's
// clock was set.
//
// Check may shorten the validity to what the nodes still support. It never extends it. The
// nodes' answers are exact to within the round trip.
//
// It returns nil if the lock is held; Remaining then returns for how long. It returns a *LostError if a
// quorum says that the lock is not held, and the lock ends. It returns an error that matches
// ErrNoQuorum, ErrQuarantined or the cause of ctx if too few nodes answered, and the lock is unchanged. After
// Locker.Close has stopped waiting that is ErrClosed.
// If the lock had ended before, Check returns the reason.
func (lk *Lock) Check(ctx context.Context) error {
	if !lk.isHeld() {
		return lk.endError()
	}
	if lk.family.shareOf != nil {
		return lk.root().Check(ctx)
	}
	r := lk.countedInspect(&checkEvents)
	r.Rule = vote.LossAfterAll
	lk.l.group.NoteBegan(r)
	if err := lk.l.runRound(ctx, r, lk.l.set.timeout(lk.opts.ttl)); err != nil {
		return withOp("check", err)
	}
	if r.Won() {
		lk.checked(r, noDeadline)
	} else if err := lk.shortenOrEnd(r); err != nil {
		return err
	}
	if !lk.isHeld() {
		return lk.endError()
	}
	return nil
}

// checkEvents are the events of a check; its owner is the Lock.
var checkEvents = vote.Events{OnReply: func(r *vote.Round, _ int, rep command.Reply) command.Reply {
	if rep.Outcome == command.Granted {
		r.Owner.(*Lock).voteOnKeys(&rep)
	}
	return rep
}}

// voteOnKeys turns the state of a node's keys into a vote. It is a grant unless the keys end before
// the validity does. A quorum of grants decides at once. Otherwise the round waits for the other
// nodes.
func (lk *Lock) voteOnKeys(rep *command.Reply) {
	// The PTTL was read before now, so the keys may live until this instant:
	latest, ours := lk.l.supported(lk.l.now(), lk.args.Token(), rep.KeyStates)
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if !ours || latest.Add(time.Millisecond).Before(lk.lease.Ends()) {
		rep.Outcome = command.Refused
	}
}

// shortenOrEnd shortens the validity to what the nodes support. If a quorum reports that the token
// does not hold the names, it ends the hold.
func (lk *Lock) shortenOrEnd(r *vote.Round) error {
	ours, others := lk.supportedUntil(r)
	nodes := len(lk.l.nodes)
	until, ok := quorum.Supported(ours, quorum.Majority(nodes))
	switch {
	case quorum.Blocks(nodes, others):
		votes := lk.checkVotes(r)
		lk.mu.Lock()
		lk.markLostLocked(votes)
		lk.mu.Unlock()
		end := lk.loss()
		end.asks = false
		end.holder.Store(lk.successor(r))
		lk.end(lk.lostBy(end), undoKeys)
	case !ok && errors.Is(lk.contextCause(), ErrClosed):
		return lk.named(ErrClosed) // Close ends what its nodes have not answered
	case !ok:
		return withOp("check", faultError(r))
	default:
		lk.checked(r, until)
	}
	return nil
}

// checkVotes returns the answers of a check as votes on whether the token holds the names, and not on
// for how long (see voteOnKeys).
func (lk *Lock) checkVotes(r *vote.Round) []Vote {
	votes := votesError(r, nil).Votes
	r.View(func(s *vote.Ballots) {
		for i, holds := range s.KeyStates {
			if holds == nil {
				continue // no answer, or a failure
			}
			votes[i].Outcome, votes[i].Err = OutcomeGranted, nil
			if _, ours := lk.l.supported(r.Start, lk.args.Token(), holds); !ours {
				others := slices.DeleteFunc(slices.Clone(holds), func(h command.KeyState) bool { return h.Value == lk.args.Token() })
				votes[i].Outcome, votes[i].Err = OutcomeRefused, asHeldError(others)
			}
		}
	})
	return votes
}

// supportedUntil evaluates the answers of all nodes. ours has, for each node that holds the token,
// the instant until which it surely keeps it. It is counted from before the request was sent, and
// less 1 ms because PTTL is truncated to milliseconds. others is the number of nodes that do not
// hold the token.
func (lk *Lock) supportedUntil(r *vote.Round) (ours []clock.Instant, others int) {
	r.View(func(s *vote.Ballots) {
		for _, holds := range s.KeyStates {
			if holds == nil {
				continue // no answer, or a failure
			}
			if bound, ok := lk.l.supported(r.Start, lk.args.Token(), holds); ok {
				ours = append(ours, bound.Add(-time.Millisecond))
			} else {
				others++
			}
		}
	})
	return ours, others
}

// supported returns until when all keys hold the token, counted from start and less drift. A key
// that never expires is not a lease.
func (l *Locker) supported(start clock.Instant, token string, holds []command.KeyState) (until clock.Instant, ours bool) {
	until = noDeadline
	for _, h := range holds {
		if h.Value != token || h.TTL < 0 {
			return 0, false
		}
		ttl := min(h.TTL, l.set.maxTTL)
		until = min(until, quorum.Until(start, ttl, l.set.drift))
	}
	return until, len(holds) > 0
}

// checked records that a quorum keeps the lock until an instant, as the answers to r show.
func (lk *Lock) checked(r *vote.Round, until clock.Instant) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.lease.Checked(r.Start, until, lk.l.now())
	lk.scheduleLocked()
	if lk.lease.Ends() == until {
		lk.l.group.NoteDecided(r, until, 0)
	}
}
