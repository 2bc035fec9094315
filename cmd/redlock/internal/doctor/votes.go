package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// ballot is how many of the nodes of a report can vote.
type ballot struct {
	State  string `json:"state"`
	Can    int    `json:"can_vote"`
	Needed int    `json:"needed"`

	nodes int
	wait  time.Duration // until a quorum can vote, because quarantines end; 0: not by waiting
}

// The states of a ballot, for a probe.
const (
	stateOK       = "ok"       // every node can vote
	stateDegraded = "degraded" // a quorum can
	stateDown     = "down"     // locks can't be taken
)

// ballotOf counts the nodes that can vote. A server with two names votes once.
func ballotOf(r *doctor.Report) ballot {
	b := ballot{Needed: quorum.Majority(len(r.Nodes)), nodes: len(r.Nodes)}
	servers := make(map[string]bool)
	var quarantines []time.Duration
	for _, n := range r.Nodes {
		twice := n.RunID != "" && servers[n.RunID]
		servers[n.RunID] = true
		switch wait, ok := votesIn(n); {
		case !ok || twice:
		case wait > 0:
			quarantines = append(quarantines, wait)
		default:
			b.Can++
		}
	}
	switch {
	case b.Can == b.nodes:
		b.State = stateOK
	case b.Can >= b.Needed:
		b.State = stateDegraded
	default:
		b.State = stateDown
	}
	if missing := b.Needed - b.Can; b.State == stateDown && missing <= len(quarantines) {
		slices.Sort(quarantines)
		b.wait = quarantines[missing-1]
	}
	return b
}

// votesIn returns how long a node is quarantined, and whether it votes afterwards without anything
// being done.
func votesIn(n doctor.Node) (wait time.Duration, ok bool) {
	for _, f := range n.Findings {
		if f.Grade == doctor.Error && !blocksAdmission(f) {
			return 0, false
		}
	}
	switch n.Guard {
	case "", examine.StateOK:
		return 0, n.Answered
	case examine.StateQuarantined:
		return n.Quarantine, true
	}
	return 0, false // the first acquisition begins a quarantine
}

func (b ballot) String() string {
	text := fmt.Sprintf("%d of %d can vote, %d needed: ", b.Can, b.nodes, b.Needed)
	switch {
	case b.State != stateDown:
		return text + "locks can be taken"
	case b.wait > 0:
		return text + fmt.Sprintf("locks can't be taken for %v more", (b.wait+time.Second-1).Truncate(time.Second))
	}
	return text + "locks can't be taken"
}
