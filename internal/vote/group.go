package vote

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// Group is a fixed set of nodes that vote together. Its methods are safe for concurrent use. Its
// exported fields do not change after NewGroup.
type Group struct {
	Nodes  []command.Node
	Clock  clock.Clock
	Timers *timer.Queue // ends the votes
	// OnAnswer is called for every answer, after it was counted and before any event of its round.
	// late reports that the round was decided or the vote was over. It must not block. It may be nil;
	// the latency of most grants is then not measured, because reading the clock is costly.
	OnAnswer func(r *Round, node int, rep command.Reply, took time.Duration, late bool)
	// Observer is told what becomes of the locks. It is for tests, and nil elsewhere.
	Observer Observer

	// By node: how long an answer to an acquire took when that was last measured (see Round.measure), in
	// nanoseconds. 0: it was never measured, or the node was silent since.
	trips []atomic.Int64
}

// NewGroup completes a group whose exported fields are set.
func NewGroup(g *Group) *Group {
	g.trips = make([]atomic.Int64, len(g.Nodes))
	return g
}

// A tied vote waits tieFactor times as long as the answers took, and at least minTie. One that is patient
// waits for tripsPatience round trips of a distant node.
const (
	tieFactor     = 4
	minTie        = 10 * time.Millisecond
	tripsPatience = 2
)

// TieTimeout returns how long to wait for more answers if the others took this long.
func TieTimeout(took time.Duration) time.Duration { return max(tieFactor*took, minTie) }

// Patience returns how long after its start a patient vote waits for a node in a tie. It is 0 for a node that
// was never measured or that is silent: it left an attempt unanswered and has not answered in time since.
func (g *Group) Patience(node int) time.Duration { return tripsPatience * g.trip(node) }

func (g *Group) trip(node int) time.Duration { return time.Duration(g.trips[node].Load()) }

// NoteBegan tells the observer, if there is one, that a round begins.
func (g *Group) NoteBegan(r *Round) {
	if g.Observer != nil {
		g.Observer.Began(r)
	}
}

// NoteDecided tells the observer what follows from a round.
func (g *Group) NoteDecided(r *Round, until clock.Instant, fence int64) {
	if g.Observer != nil {
		g.Observer.Decided(r, until, fence)
	}
}

// NoteEnded tells the observer that an attempt or a lock is over.
func (g *Group) NoteEnded(token string, kept bool) {
	if g.Observer != nil {
		g.Observer.Ended(token, kept)
	}
}

func (g *Group) noteAnswer(r *Round, node int, rep command.Reply) {
	if g.Observer != nil {
		g.Observer.Answered(r, node, rep)
	}
}
