package redlock

import (
	"slices"

	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// extending is the state of the requests about a held lock: extensions and repairs. Its hold guards it.
type extending struct {
	rounds  []*vote.Round // those that some node has not answered; Detach waits for their decision
	trouble *trouble      // nil while all nodes grant extensions
}

// trouble is what extensions show that not all nodes granted.
type trouble struct {
	votes  []Vote        // that show a loss, or those to the last extension that no quorum confirmed in time
	copies report.Copies // the nodes that do not support the lock
}

// begin adds a round that is about to be sent.
func (e *extending) begin(r *vote.Round) { e.rounds = append(e.rounds, r) }

// confirmed drops what earlier extensions showed: a quorum has confirmed one. The nodes that do not support the lock
// remain.
func (e *extending) confirmed() {
	if e.copies() == (report.Copies{}) {
		e.trouble = nil
	} else {
		e.trouble.votes = nil
	}
}

// complete removes a round that all nodes have answered.
func (e *extending) complete(r *vote.Round) {
	if e.rounds = slices.DeleteFunc(e.rounds, func(u *vote.Round) bool { return u == r }); len(e.rounds) == 0 {
		e.rounds = nil
	}
}

// cancel cancels the commands that are unsent. Sent ones precede any that is submitted later. The hold has ended.
func (e *extending) cancel() {
	for _, r := range e.rounds {
		r.Cancel()
	}
}

// inTrouble returns what is known of trouble, to be changed.
func (e *extending) inTrouble() *trouble {
	if e.trouble == nil {
		e.trouble = &trouble{}
	}
	return e.trouble
}

// copies returns which nodes do not support the lock.
func (e *extending) copies() report.Copies {
	if e.trouble == nil {
		return report.Copies{}
	}
	return e.trouble.copies
}

// lossVotes returns the votes of the trouble, or else those to an extension that is under way.
func (e *extending) lossVotes() []Vote {
	if t := e.trouble; t != nil && t.votes != nil {
		return t.votes
	}
	for _, r := range e.rounds {
		if x, ok := r.Owner.(interface{ votes() []Vote }); ok && !r.Won() { // an extension, and no repair
			return x.votes()
		}
	}
	return nil
}
