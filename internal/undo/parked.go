package undo

import (
	"math"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Parked is the undos that a server answered by an error. They have no timers of their own:
// one at a time is sent as a probe. When the server executes it, others follow.
//
// The oldest is the next probe. So an undo whose error concerns only itself delays the others by
// a second, and not until its end. A probe is an undo and never a PING, because CLUSTERDOWN,
// MISCONF, OOM and NOREPLICAS let a PING pass. Its owner guards it. The zero value is empty.
type Parked struct {
	waiting []*command.Command // the oldest is first
	probes  uint8              // number of probes since one was executed
}

// MaxParked bounds the undos of a node that will be sent once more.
const MaxParked = 10_000

// Followers is how many parked undos follow one that was executed. Each of them has followers in
// turn, so all are sent within a few round trips, but few to a server that fails again.
const Followers = 2

// Probes come after 20 ms, then at doubling intervals up to a second, because nothing tells when a server executes undos again.
const (
	minProbePause = 20 * time.Millisecond
	MaxProbePause = time.Second
	maxProbes     = 10 // are counted, so that the shift does not overflow
)

// Len returns how many undos are parked.
func (p *Parked) Len() int { return len(p.waiting) }

// Add parks an undo that was answered, to be sent once more. If it was perhaps executed, an earlier sending may have undone what the
// next one misses. first reports that no probe is planned.
func (p *Parked) Add(c *command.Command, perhaps bool) (first bool) {
	first = len(p.waiting) == 0
	if first && c.Retries == 0 { // it failed for the first time: the interval begins again
		p.probes = 0
	}
	next := &command.Command{Request: c.Request, To: c.To, Node: c.Node, Retries: min(c.Retries, math.MaxUint8-1) + 1}
	next.SetAsking(c.Asking()) // it goes to the same shard
	if perhaps {
		next.MarkResend()
	}
	p.waiting = append(p.waiting, next)
	return first
}

// Pause returns the time to the next probe.
func (p *Parked) Pause() time.Duration { return min(minProbePause<<p.probes, MaxProbePause) }

// Probed is told that the time of a probe has come. It returns the undos that have expired.
func (p *Parked) Probed(now clock.Instant) (late []*command.Command) {
	p.probes = min(p.probes+1, maxProbes)
	return p.RemoveIf(func(c *command.Command) bool { return c.Expired(now) })
}

// Soon is told that the server may execute undos again: it did so with one, or there is a new connection.
func (p *Parked) Soon() { p.probes = 0 }

// Take removes and returns the oldest undos, at most so many.
func (p *Parked) Take(most int) []*command.Command {
	n := max(0, min(most, len(p.waiting)))
	taken := slices.Clone(p.waiting[:n])
	clear(p.waiting[:n]) // the array must not keep them alive
	if p.waiting = p.waiting[n:]; len(p.waiting) == 0 {
		p.waiting = nil
	}
	return taken
}

// RemoveIf removes and returns the undos for which a condition is true. The others keep their order.
func (p *Parked) RemoveIf(condition func(c *command.Command) bool) (removed []*command.Command) {
	kept := p.waiting[:0]
	for _, c := range p.waiting {
		if condition(c) {
			removed = append(removed, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
	return removed
}
