package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// fault is an event on a master or on a client at some instant.
type fault struct {
	at   time.Duration // since the beginning
	kind string
	who  int           // which master, or which client
	d    time.Duration // how long, or by how much
}

func (f fault) String() string {
	return fmt.Sprintf("%v %s %d by %v", f.at.Round(time.Microsecond), f.kind, f.who, f.d.Round(time.Microsecond))
}

// The faults of masters and of the network that Redlock promises to survive.
var withinAssumptions = []string{"delay", "delay", "pause", "reset", "cut", "restart", "suspend", "scripts"}

// Faults by which a master forgets what it acknowledged. They need the guard.
var amnesia = []string{"empty", "flush", "everysec", "failover"}

// Clocks of masters that are set back. For fences under the guard this is beyond the assumptions.
var backward = []string{"back"}

// Faults under which no lease can promise exclusion. Fences still stay in order.
var beyond = []string{"jump", "delete", "stall"}

// plan is everything that a seed determines before a scenario begins.
type plan struct {
	seed                              uint64
	masters, clients, workers, rounds int
	ttl                               time.Duration
	guard, repair, fencing            bool
	excludes                          bool // exclusion is promised
	unpassed                          bool // no lock is passed to another client
	durable                           bool // counters are durable
	offsets                           time.Duration
	clientRates, masterRates          float64 // maximum difference from 1
	kinds                             []string
	faults                            []fault
	faultyClient                      *faultyClient  // nil: the client is not changed
	directed                          func(w *world) // replaces the play that the seed determines
	rejected                          string         // the event and the reason for which its trace must be rejected; empty: it must be accepted
	trace                             *trace         // of the last time that it was played; may be nil
}

func (p *plan) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, stream)) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

// draw returns the plan of a seed, in one of three settings: masters that forget nothing; masters
// that forget, under the guard; and masters and clients that break the assumptions of exclusion,
// with durable counters.
func draw(seed uint64) *plan {
	p := &plan{seed: seed, excludes: true, durable: true}
	r := p.random(0)
	p.masters = pick(r, 3, 3, 3, 3, 3, 3, 5, 1, 2, 4)
	p.clients, p.workers, p.rounds = 2+r.IntN(2), 1+r.IntN(2), 2
	p.ttl = pick(r, 100*time.Millisecond, 300*time.Millisecond, time.Second)
	p.clientRates, p.masterRates, p.offsets = 0.004, 0.004, pick(r, 0, time.Second, time.Hour)
	p.fencing = r.IntN(4) > 0
	p.kinds = slices.Clone(withinAssumptions)
	switch r.IntN(3) {
	case 0:
		p.kinds = append(p.kinds, backward...)
	case 1:
		p.guard, p.fencing, p.durable = true, true, false
		p.offsets = 0 // promise 3: the clocks differ by less than maxTTL less twice the clamp, which is ttl/2 here
		p.repair = r.IntN(2) == 0
		forgets := amnesia
		if p.repair { // docs/dev/rules.md rule 16: tested with empty restarts and flushes only
			forgets = amnesia[:2]
		}
		p.kinds = append(p.kinds, forgets...)
	case 2:
		p.excludes, p.fencing = false, true
		p.clientRates, p.masterRates = 0.5, 0.2
		p.kinds = append(p.kinds, beyond...)
	}
	p.script()
	return p
}

// longest returns the longest TTL of a scenario. Under the guard it is maxTTL.
func (p *plan) longest() time.Duration { return 2 * p.ttl }

// script draws the faults. They depend on the seed only.
func (p *plan) script() {
	r := p.random(1)
	p.faults = nil
	at := time.Duration(0)
	if p.guard {
		at = 2 * p.ttl // the first quarantine
	}
	for range 4 + r.IntN(10) {
		at += upTo(r, p.ttl/2)
		f := fault{at: at, kind: pick(r, p.kinds...), who: r.IntN(p.masters)}
		switch f.kind {
		case "pause":
			f.d = p.ttl/10 + upTo(r, 2*p.ttl)
		case "delay":
			f.d = upTo(r, p.ttl/20)
		case "restart", "empty", "everysec", "failover":
			f.d = upTo(r, p.ttl/2) // time until the restart
		case "suspend", "stall":
			f.who, f.d = r.IntN(p.clients), upTo(r, p.ttl)
		case "back":
			f.d = upTo(r, 2*p.ttl)
		case "jump":
			f.d = upTo(r, 2*p.ttl) - p.ttl/2 + pick(r, -p.offsets, 0, 0, p.offsets)/2
		}
		p.faults = append(p.faults, f)
	}
}

func (p *plan) String() string {
	return fmt.Sprintf("seed %d: %d masters, %d clients of %d, ttl %v, guard %t, repair %t, fencing %t, exclusion promised %t, offsets %v, faults %v",
		p.seed, p.masters, p.clients, p.workers, p.ttl, p.guard, p.repair, p.fencing, p.excludes, p.offsets, p.faults)
}
