package redlock

import (
	"github.com/quorumlock/go-redlock/pool/wire"
)

// missed books the nodes that an extension found without our keys, to be repaired. Called
// when all of them have answered and the decision is booked.
func (k *Lock) missed(x *extension) {
	if !k.l.set.repair {
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
	k.mu.Lock()
	defer k.mu.Unlock()
	if x.took && k.phase == held && !k.lost && !k.noExtend {
		k.missing = missing
		k.arm() // not here: this may be under the sending lock
	}
}

// repair takes the keys again on the nodes that lost them. It counts in no vote; those
// nodes' next answers to an extension do. As it creates keys it is sent no later than the
// validity lasts, is undone on every node that was asked, and in order (docs/rules.md rule 9).
// Called under the sending lock, which it unlocks.
func (k *Lock) repair() {
	defer k.sending.Unlock()
	r := k.l.newRound(&repairOwner{k}, k.names)
	r.pace, r.start = everyVote, k.l.now() // what Detach waits for is the nodes' answers
	k.mu.Lock()
	missing := k.missing
	k.missing = nil
	if missing == nil || k.phase != held || k.lost || !r.start.Before(k.end()) {
		k.mu.Unlock()
		return
	}
	if k.repaired == nil {
		k.repaired = make([]bool, len(missing))
	}
	for i, m := range missing {
		k.repaired[i] = k.repaired[i] || m
	}
	r.req.Clock, r.req.NotAfter = k.l.set.clock, k.end()
	k.begin(r)
	k.mu.Unlock()
	r.submittedBy(wire.ByLibrary)
	wire.NewRepair(&r.req, &k.terms, k.ttl, k.l.set.maxTTL, k.fence)
	r.ask(k.l.set.timeout(k.ttl), func(node int) (wire.Reply, bool) {
		return wire.Reply{Outcome: wire.Failed, NotSent: true}, !missing[node]
	})
}

// repairOwner is told of a repair's course.
type repairOwner struct{ lock *Lock }

func (o *repairOwner) judge(_ *round, rep wire.Reply) wire.Reply { return rep }
func (o *repairOwner) decided(*round)                            { o.lock.joined.Done() }
func (o *repairOwner) finished(r *round)                         { o.lock.over(r) }
