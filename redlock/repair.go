package redlock

import (
	"github.com/quorumlock/go-redlock/pool/wire"
)

// noteMissing books the nodes that an extension found without our keys, to be repaired. Called
// when all of them have answered and the decision is booked.
func (lk *Lock) noteMissing(x *extension) {
	if !lk.l.set.repair {
		return
	}
	x.mu.Lock()
	missing := make([]bool, len(x.ballots))
	some := false
	for i := range x.ballots {
		missing[i] = x.ballots[i].outcome == wire.Refused
		some = some || missing[i]
	}
	x.mu.Unlock()
	if !some {
		return
	}
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if x.effective && lk.phase == held && !lk.lost && !lk.extensionStopped {
		lk.toRepair = missing
		lk.scheduleLocked() // not here: this may be under the sending lock
	}
}

// repair takes the keys again on the nodes that lost them. It counts in no vote; those
// nodes' next answers to an extension do. As it creates keys it is sent no later than the
// validity lasts, is undone on every node that was asked, and in order (docs/rules.md rule 9).
// Called under the sending lock, which it unlocks.
func (lk *Lock) repair() {
	defer lk.sending.Unlock()
	r := lk.l.newRound(&repairObserver{lk}, lk.names)
	r.rule, r.start = afterAll, lk.l.now() // what Detach waits for is the nodes' answers
	lk.mu.Lock()
	missing := lk.toRepair
	lk.toRepair = nil
	if missing == nil || lk.phase != held || lk.lost || !r.start.Before(lk.endNowLocked()) {
		lk.mu.Unlock()
		return
	}
	if lk.repaired == nil {
		lk.repaired = make([]bool, len(missing))
	}
	for i, m := range missing {
		lk.repaired[i] = lk.repaired[i] || m
	}
	r.req.Clock, r.req.NotAfter = lk.l.set.clock, lk.endNowLocked()
	lk.registerLocked(r)
	lk.mu.Unlock()
	r.submittedBy(wire.ByLibrary)
	wire.NewRepair(&r.req, &lk.terms, lk.ttl, lk.l.set.maxTTL, lk.fence)
	r.sendAll(lk.l.set.timeout(lk.ttl), func(node int) (wire.Reply, bool) {
		return wire.Reply{Outcome: wire.Failed, NotSent: true}, !missing[node]
	})
}

// repairObserver is told of a repair's course.
type repairObserver struct{ lock *Lock }

func (o *repairObserver) onReply(_ *round, rep wire.Reply) wire.Reply { return rep }
func (o *repairObserver) onDecision(*round)                           { o.lock.inFlightWG.Done() }
func (o *repairObserver) onComplete(r *round)                         { o.lock.unregister(r) }
