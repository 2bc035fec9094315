package redlock

import (
	"errors"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// maxAsking bounds how many locks that were lost are asked about at a time: all locks of a process may
// be lost together.
const maxAsking = 64

// askSuccessor asks the nodes who holds the names of a lock that was lost, and logs the loss when they
// have answered. It follows the undo, so the answers do not show the lock itself. It waits for nothing,
// and needs no goroutine.
func (lk *Lock) askSuccessor() {
	lost := lk.lost()
	if lost == nil || !lost.end.asks {
		return
	}
	l := lk.l
	if l.asking.Add(1) > maxAsking {
		lk.logLost(lost)
		l.asked()
		return
	}
	r := l.inspectRound(&successorEvents, lk, lk.hold.Names)
	r.Rule = vote.AfterAll
	r.Arm(l.set.readTimeout())
	r.Send(nil).Settle()
}

// successorEvents are the events of that query; its owner is the Lock.
var successorEvents = vote.Events{OnDecision: func(r *vote.Round) {
	lk := r.Owner.(*Lock)
	lost := *lk.lost()
	lost.Holder = lk.successor(r)
	lost.end.holder.Store(lost.Holder)
	lk.logLost(&lost)
	lk.l.asked()
}}

// asked records the end of such a query. Close may be waiting for it.
func (l *Locker) asked() {
	l.asking.Add(-1)
	l.registry.wake()
}

// awaitLog waits until each loss is in the log, but no longer than until an instant. A process often ends right
// after a loss.
func (l *Locker) awaitLog(until clock.Instant) {
	if l.holdLog == nil {
		return
	}
	for l.now().Before(until) {
		change := l.registry.change()
		if l.asking.Load() <= 0 {
			break
		}
		awaitUntil(l.set.clock, until, change, nil)
	}
	l.reporter.JoinLines(l.set.clock, max(0, until.Sub(l.now())))
}

// successor returns the holder that a query found: of several, the one whose keys are kept longest. It
// returns nil if no other token is on a quorum.
func (lk *Lock) successor(r *vote.Round) (found *HeldError) {
	r.View(func(s *vote.Ballots) {
		for name := range r.Names {
			token, kept := quorumHolder(s, name)
			if token != "" && token != lk.args.Token() && (found == nil || command.Outlasts(kept, found.Remaining)) {
				found = &HeldError{Owner: command.Owner(token), ID: command.ID(token), Remaining: kept}
			}
		}
	})
	return found
}

// lost returns why the lock has ended under its holder, or nil.
func (lk *Lock) lost() (lost *LostError) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	errors.As(lk.cause, &lost)
	return lost
}
