package pool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// unackedAcquires are the acquires that were written on a connection that ended before they were
// answered. The server may execute them at any time later, also after an undo that is sent on
// another connection (docs/dev/hazards.md H95: seen in 20 of 40 rounds). So the next connection
// first kills the old connection on the server. If that is impossible, acquires are swept once
// their undos were answered: one call deletes what many of them have made since, again and again,
// until their keys have expired. It is guarded by pipeline.mu.
type unackedAcquires struct {
	conns  map[deadConn]struct{}
	tokens map[string]*unackedAcquire
	// some is set while there are tokens. It is read without a lock: see retry.
	some atomic.Bool

	undone []*unackedAcquire // are swept; the last ones were swept last
	timer  timer.Alarm       // of the next sweep
	due    clock.Instant     // when the next sweep is due, also without a connection; 0 before the first
}

// unackedAcquire is what is known of one such acquire.
type unackedAcquire struct {
	token  string
	keys   []string
	ttl    time.Duration
	until  clock.Instant // when all that it can make has expired; noDeadline until there is a connection
	from   clock.Instant // not swept before: the end of a minimum hold
	undone bool
}

// noDeadline is later than any instant of a clock.
const noDeadline = clock.Instant(1<<63 - 1)

// deadConn identifies a connection on the server: by its client ID within one run of the server.
type deadConn struct {
	clientID int64
	runID    string
}

// maxUnacked bounds the acquires that a pipeline remembers, and maxDeadConns the connections. maxSwept
// bounds the keys of one call, which a server executes in about a millisecond. Only a lock with more
// names has a call with more.
const (
	maxUnacked   = 8000
	maxDeadConns = 100
	maxSwept     = 1000
)

var errTooManyUnacked = fmt.Errorf(
	"pool: %d acquires may still be executed: what further ones make is not undone, and remains until its TTL", maxUnacked)

// A pipeline's sweeps are minSweepPause apart: with the health checks, a connection carries
// less than two commands a second. So all of maxUnacked acquires are swept within maxSweepPause. Where a call may
// have the keys of one lock only (a Cluster, a proxy), it takes minSweepPause for each name if that is longer.
const (
	minSweepPause = 600 * time.Millisecond
	maxSweepPause = 5 * time.Second
)

// add remembers an acquire that was unanswered when its connection ended, and reports false if there
// is no room for it.
func (o *unackedAcquires) add(c *command.Command, f session.Facts) bool {
	if len(o.tokens) >= maxUnacked {
		return false
	}
	if o.tokens == nil {
		o.tokens, o.conns = make(map[string]*unackedAcquire), make(map[deadConn]struct{})
	}
	o.some.Store(true)
	o.tokens[c.Token()] = &unackedAcquire{token: c.Token(), keys: slices.Clone(c.Keys), ttl: c.TTL, until: noDeadline}
	old := deadConn{f.ClientID, f.RunID}
	if _, known := o.conns[old]; !known && len(o.conns) >= maxDeadConns-1 {
		old = deadConn{} // one of many that are not killed
	}
	o.conns[old] = struct{}{}
	return true
}

// prune forgets acquires whose keys have expired. It goes through all of them, and so is called
// once for each ended connection, and not for each acquire: there may be thousands.
func (o *unackedAcquires) prune(now clock.Instant) {
	expired := func(a *unackedAcquire) bool { return !now.Before(a.until) }
	maps.DeleteFunc(o.tokens, func(_ string, a *unackedAcquire) bool { return expired(a) })
	o.undone = slices.DeleteFunc(o.undone, expired)
	// The connections matter only as long as one of their acquires does.
	if len(o.tokens) == 0 {
		o.clear()
	}
}

// settle is for acquires that the server will not execute any more. What they made since the last
// sweep is still to be swept.
func (o *unackedAcquires) settle(now clock.Instant) {
	round := max(maxSweepPause, minSweepPause*time.Duration(len(o.undone)))
	for token, a := range o.tokens {
		if !a.undone {
			delete(o.tokens, token)
		}
		a.until = min(a.until, max(now, a.from).Add(2*round))
	}
	o.prune(now)
}

// startExpiry sets the time until which an acquire may still be executed, if its connection could
// not be killed. That is twice its TTL from the instant at which there is a connection again.
func (o *unackedAcquires) startExpiry(now clock.Instant) {
	for _, a := range o.tokens {
		// Only where no end is set yet: a later connection must not postpone it.
		if a.until == noDeadline {
			a.until = now.Add(2 * a.ttl)
		}
	}
}

// clear drops everything: the connections are closed on the server, or the node is.
func (o *unackedAcquires) clear() {
	o.conns, o.tokens, o.undone = nil, nil, nil
	o.some.Store(false)
	o.timer.Stop() // a sweep that fires all the same finds nothing
	o.due = 0
}

// next returns acquires for one sweep, those first that were swept longest ago, and forgets those
// whose keys have expired. Unless several is true, all have the same first key.
func (o *unackedAcquires) next(now clock.Instant, several bool) (batch []*unackedAcquire) {
	var others []*unackedAcquire
	keys := 0
	for _, a := range o.undone {
		switch {
		case !now.Before(a.until):
			delete(o.tokens, a.token)
		case !now.Before(a.from) && (len(batch) == 0 || keys+len(a.keys) <= maxSwept && (several || a.keys[0] == batch[0].keys[0])):
			batch, keys = append(batch, a), keys+len(a.keys)
		default:
			others = append(others, a)
		}
	}
	o.undone = slices.Concat(others, batch)
	return batch
}

// sweepLaterLocked notes that an undo was answered, or is too late for its owner. If its acquire may
// still be executed, sweeps begin.
func (pl *pipeline) sweepLaterLocked(undo *command.Command) {
	o := &pl.unacked
	a := o.tokens[undo.Token()]
	if a == nil || a.undone {
		return
	}
	now := pl.node.cfg.Clock.Now()
	if undo.Op == command.Shorten {
		a.from = now.Add(undo.TTL)
	}
	a.undone = true
	o.undone = append(o.undone, a)
	if at := now.Add(minSweepPause); o.due == 0 || at.Before(o.due) {
		o.due = at
	}
	pl.armSweepLocked()
}

// armSweepLocked sets the timer to the next sweep. Without a connection it does not: serveConn calls
// armSweepLocked for the next one.
func (pl *pipeline) armSweepLocked() {
	o := &pl.unacked
	if pl.conn == nil || len(o.undone) == 0 {
		return
	}
	o.timer.Set(pl.node.cfg.Clock, max(0, o.due.Sub(pl.node.cfg.Clock.Now())), pl.sweep)
}

// sweep is the timer's function. It sends one sweep, unless the server answers by errors: it then gets
// checks and probes, two a second.
func (pl *pipeline) sweep() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	o, now := &pl.unacked, pl.node.cfg.Clock.Now()
	if pl.conn == nil || now.Before(o.due) {
		return
	}
	unfit, parked := pl.conn.state.Unfit(), pl.parked.waiting.len() > 0
	if pl.conn.state.Failing() == nil && (!unfit || !parked) {
		if batch := o.next(now, pl.node.kind.severalSlots() && !pl.node.cfg.Proxied); len(batch) > 0 {
			pl.queue.push(newSweep(batch))
			pl.wakeLocked()
		}
	}
	least := minSweepPause
	if unfit || parked { // a check or a probe comes each second
		least *= 2
	}
	o.due = now.Add(least)
	pl.armSweepLocked()
}

// newSweep returns one sweep of all these acquires.
func newSweep(batch []*unackedAcquire) *command.Command {
	var keys, tokens []string
	for _, a := range batch {
		for _, key := range a.keys {
			keys, tokens = append(keys, key), append(tokens, a.token)
		}
	}
	r := &command.Request{}
	command.NewSweep(r, keys, tokens)
	return &command.Command{Request: r}
}

// killDeadConns ends the connections to the same server process that ended with an acquire
// unanswered. When all are gone, nothing needs a sweep: the server will never execute what it
// has not executed by then. If the run ID differs, the old connections ended with their process.
func (pl *pipeline) killDeadConns(ctx context.Context, s *transport.Conn, f session.Facts) error {
	// The map is taken under mu and read without it, because each kill waits for the server.
	// Nothing is added meanwhile: only detach adds, and it runs on this goroutine.
	pl.mu.Lock()
	old := pl.unacked.conns
	pl.mu.Unlock()
	left := make(map[deadConn]struct{})
	denied := false
	for k := range old {
		switch {
		case denied || pl.node.cfg.Proxied || k.clientID == 0 || k.runID == "" || f.RunID == "":
			left[k] = struct{}{} // the client ID may be another connection's by now
		case k.runID != f.RunID: // gone with its process
		default:
			killed, err := kill(ctx, s, k.clientID)
			if err != nil {
				return err
			}
			if !killed {
				denied, left[k] = true, struct{}{} // the server is not asked again for each of them
			}
		}
	}
	// Under mu again, and before the connection takes commands: an undo that is sent on it
	// already counts on the result.
	pl.mu.Lock()
	defer pl.mu.Unlock()
	now := pl.node.cfg.Clock.Now()
	pl.unacked.startExpiry(now)
	if pl.unacked.conns = left; len(left) == 0 {
		pl.unacked.settle(now)
	}
	return nil
}
