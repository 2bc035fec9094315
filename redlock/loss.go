package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// loss returns why the lock ends now under its holder. The log has a pause of the process first.
func (h *hold) loss() *lockEnd {
	pause := h.l.timers.LastPause()
	h.l.notePause(pause)
	h.mu.Lock()
	pause.Until = min(pause.Until, h.lease.Ends()) // what came after the end did not cause it
	why, votes := h.lease.Loss(pause.From, pause.Until), h.extending.lossVotes()
	h.mu.Unlock()
	end := h.endBy(why)
	switch why {
	case lease.Gone, lease.NoQuorum:
		end.votes = votes
	case lease.Paused:
		end.paused = pause.For()
	}
	// After other losses the nodes still had the keys, or do not answer.
	end.asks = why == lease.Gone || why == lease.Paused
	return end
}

// endBy returns the end of the lock by a loss.
func (h *hold) endBy(why lease.Loss) *lockEnd {
	keeper := h.keeper() // only its extensions confirm the lease of a share
	keeper.mu.Lock()
	end := &lockEnd{reason: LossReason(why.String()), began: h.holder.Began, confirmed: keeper.lease.Confirmed()}
	keeper.mu.Unlock()
	h.mu.Lock()
	end.over = h.lease.Ends()
	h.mu.Unlock()
	end.wall = time.UnixMicro(h.l.set.wall()).Add(-h.l.now().Sub(end.confirmed))
	return end
}

// maxAsking bounds how many locks that were lost are asked about at a time: all locks of a process may
// be lost together.
const maxAsking = 64

// askSuccessor asks the nodes who holds the names of a lock that was lost, and logs the loss when they
// have answered. It follows the undo, so the answers do not show the lock itself. It waits for nothing,
// and needs no goroutine.
func (h *hold) askSuccessor() {
	lost := lossIn(h.endCause())
	if lost == nil || !lost.end.asks {
		return
	}
	l := h.l
	if l.registry.asking.Add(1) > maxAsking {
		l.reporter.lost(h.subject(), lost)
		l.registry.asked()
		return
	}
	r := l.inspectRound(&successorEvents, h, h.holder.Names)
	r.Rule = vote.AfterAll
	r.Arm(l.set.readTimeout())
	r.Send(nil).Settle()
}

// successorEvents are the events of that query; its owner is the hold.
var successorEvents = vote.Events{OnDecision: func(r *vote.Round) {
	h := r.Owner.(*hold)
	lost := *lossIn(h.endCause())
	lost.Holder = successorIn(r, h.args.Token())
	lost.end.holder.Store(lost.Holder)
	h.l.reporter.lost(h.subject(), &lost)
	h.l.registry.asked()
}}

// successorIn returns the holder that a query about a lost token found: of several, the one whose keys are kept longest. It
// returns nil if no other token is on a quorum.
func successorIn(r *vote.Round, lost string) (found *HeldError) {
	r.View(func(s *vote.Ballots) {
		for name := range r.Names {
			token, kept := quorumHolder(s, name)
			if token != "" && token != lost && (found == nil || command.Outlasts(kept, found.Remaining)) {
				found = &HeldError{Owner: command.Owner(token), ID: command.ID(token), Remaining: kept}
			}
		}
	})
	return found
}
