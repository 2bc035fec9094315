package redlock

import (
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// noteMissing records the nodes on which an extension found no keys of ours, for repair. It is
// called after all nodes have answered and the decision was applied.
func (lk *Lock) noteMissing(x *extension) {
	missing := quorum.Nodes(x.refused.Load())
	if missing == 0 || !lk.l.set.repair {
		return
	}
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if x.effective {
		lk.lease.Missing(missing, lk.l.now())
		lk.scheduleLocked()
	}
}

// repairLocked creates the keys again on nodes that lost them. It is no vote, but those nodes can grant
// the next extension. Because it creates keys, it is not sent after the validity ends, and it is
// undone on every node that it was sent to, in order (docs/dev/rules.md rule 9). The caller settles
// what was not sent.
func (lk *Lock) repairLocked() vote.Unsent {
	r := lk.l.group.New(&repairEvents, lk, lk.hold.Names)
	r.Rule, r.Start = vote.AfterAll, lk.l.now() // Detach waits for the answers of all nodes
	missing := lk.lease.TakeMissing(r.Start)
	if missing == 0 {
		return nil
	}
	lk.keys.repaired |= missing
	lk.extending.rounds = append(lk.extending.rounds, r)
	command.NewRepair(&r.Request, &lk.args, lk.opts.ttl, lk.l.set.maxTTL, lk.fence)
	r.Request.NotAfter = lk.lease.Ends()
	r.Arm(lk.l.set.timeout(lk.opts.ttl))
	lk.l.group.NoteBegan(r)
	return r.Send(func(node int) (command.Reply, bool) {
		return command.Reply{Outcome: command.Failed, NotSent: true}, !missing.Has(node)
	})
}

// repairEvents are the events of a repair; its owner is the Lock.
var repairEvents = vote.Events{OnComplete: func(r *vote.Round) { r.Owner.(*Lock).unregister(r) }}
