package redlock

import (
	"github.com/quorumlock/go-redlock/internal/command"
)

// noteMissing records the nodes on which an extension found no keys of ours, for repair. It is
// called after all nodes have answered and the decision was applied.
func (lk *Lock) noteMissing(x *extension) {
	if !lk.l.set.repair {
		return
	}
	x.mu.Lock()
	missing := make([]bool, len(x.ballots))
	some := false
	for i := range x.ballots {
		missing[i] = x.ballots[i].outcome == command.Refused
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
		lk.scheduleLocked() // not here: the caller may hold sending
	}
}

// repair creates the keys again on nodes that lost them. It is no vote, but those nodes can grant
// the next extension. Because it creates keys, it is not sent after the validity ends, and it is
// undone on every node that it was sent to, in order (docs/dev/rules.md rule 9). The caller holds
// sending, and repair unlocks it.
func (lk *Lock) repair() {
	defer lk.sending.Unlock()
	r := lk.l.newRound(&repairObserver{lk}, lk.names)
	r.rule, r.start = afterAll, lk.l.now() // Detach waits for the answers of all nodes
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
	r.submittedBy(command.ByLibrary)
	command.NewRepair(&r.req, &lk.terms, lk.ttl, lk.l.set.maxTTL, lk.fence)
	r.sendAll(lk.l.set.timeout(lk.ttl), func(node int) (command.Reply, bool) {
		return command.Reply{Outcome: command.Failed, NotSent: true}, !missing[node]
	})
}

// repairObserver handles the events of a repair.
type repairObserver struct{ lock *Lock }

func (o *repairObserver) onReply(_ *round, rep command.Reply) command.Reply { return rep }
func (o *repairObserver) onDecision(*round)                                 { o.lock.inFlightWG.Done() }
func (o *repairObserver) onComplete(r *round)                               { o.lock.unregister(r) }
