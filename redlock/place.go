package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// A name is held inside a process for so many times in a row, and for so long, before
// other processes that wait for it get their turn (docs/rules.md rule 21).
const (
	turnMost = 16
	turnLong = 50 * time.Millisecond
)

// vainMost bounds how often the pause in which others go first doubles.
const vainMost = 6

// place is a name's: while somebody of this process holds it or waits for it, and for a
// while after when somebody of another process waits. All of it is guarded by
// waiters.mu.
type place struct {
	ws     *waiters
	name   string
	holder *Lock
	head   *waiter // the first in line

	// The row of holds of this process:
	turns  int           // how many there were, passed on or taken anew
	since  clock.Instant // from when on
	freed  clock.Instant // when the last one ended
	others bool          // somebody of another process waits, as far as the nodes said last
	due    bool          // others go first
	vain   int           // how often in a row they did not take their turn

	alarm alarm.Alarm // forgets a place that is kept for its row
	kept  bool        // it was set once
}

// begin notes a hold that was not passed on. It goes on with the row where others had
// less time than pause, or than the pauses of late, to take the name.
func (p *place) begin(at clock.Instant, pause time.Duration) {
	if p.turns == 0 || at.Sub(p.freed) >= pause<<p.vain {
		p.turns, p.since = 0, at
	}
}

// end counts a hold that ends, and reports whether the row does. If others are known to
// wait it is their turn then.
func (p *place) end(now clock.Instant) (over bool) {
	p.turns++
	p.freed = now
	if p.turns < turnMost && now.Sub(p.since) < turnLong {
		return false
	}
	p.turns, p.since, p.due = 0, now, p.others
	return true
}

// outside notes that contenders of other processes have votes for the name, and perhaps
// hold it: so they had their turn.
func (p *place) outside(held bool) {
	p.turns, p.due = 0, false
	if held {
		p.vain = 0
	}
}

// yield is for how long the one who comes next lets others go first, if it is their turn.
// What has passed since the name was free counts, and doing nothing else than that is
// not in vain.
func (p *place) yield(now clock.Instant, pause time.Duration) time.Duration {
	if !p.due {
		return 0
	}
	p.due = false
	left := pause<<p.vain - now.Sub(p.freed)
	if left > 0 {
		p.vain = min(p.vain+1, vainMost-1)
	}
	return max(left, 0)
}

// at finds or makes a name's place. Called under mu.
func (ws *waiters) at(name string) *place {
	p := ws.names[name]
	if p != nil {
		return p
	}
	if last := len(ws.spare) - 1; last >= 0 {
		p, ws.spare = ws.spare[last], ws.spare[:last]
	} else {
		p = &place{}
	}
	p.ws, p.name = ws, name
	ws.names[name] = p
	return p
}

// tidy forgets a place that nobody needs, but later if others wait for the name: whoever
// of this process takes it again soon goes on with the row. Called under mu.
func (ws *waiters) tidy(p *place) {
	if p.holder != nil || p.head != nil {
		return
	}
	if p.others && !ws.closed {
		p.kept = true
		ws.l.alarms.Set(&p.alarm, ws.l.now().Add(lingering), lingering, p)
		return
	}
	delete(ws.names, p.name)
	if p.kept {
		ws.l.alarms.Clear(&p.alarm) // it may be ringing
		return
	}
	if len(ws.spare) < spareMost {
		*p = place{}
		ws.spare = append(ws.spare, p)
	}
}

// spareMost bounds what is kept to be used again.
const spareMost = 256

// Ring is called by the Locker's alarms, some time after the place was of use.
func (p *place) Ring(*alarm.Alarm) {
	p.ws.mu.Lock()
	defer p.ws.mu.Unlock()
	if p.holder == nil && p.head == nil && p.ws.names[p.name] == p {
		p.others = false
		p.ws.tidy(p)
	}
}
