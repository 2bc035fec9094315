package pool

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// unackedAcquires are the acquires that were written on a connection that ended before
// they were answered. The server may execute them at any time later, also behind
// an undo that takes another connection (docs/dev/hazards.md H95: seen in 20 of 40 rounds).
// So the old connection is killed on the server before anything else is sent;
// where that can't be, undos are repeated until the keys have died by their TTL.
type unackedAcquires struct {
	conns  []deadConn
	tokens map[string]unackedAcquire
}

// unackedAcquire is what is known of one: its undo is kept until a connection stands again,
// however long that takes, and then for as long as a key may live that it made late.
type unackedAcquire struct {
	ttl   time.Duration
	until clock.Instant // undetermined until a connection stands
}

const noDeadline = clock.Instant(1<<63 - 1)

type deadConn struct {
	clientID int64
	runID    string
}

// Undos are repeated after 20 ms, then at doubling intervals up to a
// second: a frozen server goes on at a time that nobody knows. So are probes (see parked).
const (
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = time.Second
)

// add remembers an acquire that died with its connection.
func (o *unackedAcquires) add(c *wire.Command, f facts) {
	if o.tokens == nil {
		o.tokens = make(map[string]unackedAcquire)
	}
	o.tokens[c.Token] = unackedAcquire{ttl: c.TTL, until: noDeadline}
	old := deadConn{f.clientID, f.RunID}
	if n := len(o.conns); n == 0 || o.conns[n-1] != old {
		o.conns = append(o.conns, old)
	}
}

// prune forgets orphans whose keys have died. It looks at all of them, and so goes
// once over those of a link and not with each: there may be ten thousands.
func (o *unackedAcquires) prune(now clock.Instant) {
	for token, orphan := range o.tokens {
		if !now.Before(orphan.until) {
			delete(o.tokens, token)
		}
	}
	if len(o.tokens) == 0 {
		o.conns = nil
	}
}

// startExpiry sets the time for which orphans are feared whose connection could not be
// killed: twice their TTL, from when the server is heard of again.
func (o *unackedAcquires) startExpiry(now clock.Instant) {
	for token, orphan := range o.tokens {
		if orphan.until == noDeadline {
			orphan.until = now.Add(2 * orphan.ttl)
			o.tokens[token] = orphan
		}
	}
}

func (o *unackedAcquires) clear() { o.conns, o.tokens = nil, nil }

// killDeadConns ends the connections of the same server process that died with an
// acquire unanswered. When all are gone, undos need no repetition any more: what
// the server had not executed by now it never will. A server of another run ID
// has lost its connections with its process.
func (pl *pipeline) killDeadConns(ctx context.Context, s *rawConn, f facts) error {
	pl.mu.Lock()
	old := pl.unacked.conns
	pl.mu.Unlock()
	var left []deadConn
	refused := false
	for _, k := range old {
		switch {
		case refused || pl.node.cfg.Proxied || k.clientID == 0 || k.runID == "" || f.RunID == "":
			left = append(left, k) // whose connection that number is now, nobody knows
		case k.runID != f.RunID: // gone with its process
		default:
			killed, err := s.kill(ctx, k.clientID)
			if err != nil {
				return err
			}
			if killed {
				pl.node.count.killed.Add(1)
			} else {
				refused, left = true, append(left, k) // and not asked again for each of them
			}
		}
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.unacked.conns = left; len(left) == 0 {
		pl.unacked.clear()
	}
	pl.unacked.startExpiry(pl.node.cfg.Clock.Now())
	return nil
}

// requeue queues a command once more, as by its first submission.
func (pl *pipeline) requeue(c *wire.Command) {
	pl.mu.Lock()
	if pl.drained {
		pl.mu.Unlock()
		drainedError{pl.node.shard.cluster}.handBack(c)
		return
	}
	if pl.closed || pl.conn == nil && pl.downErr != nil && !c.Op.Undoes() {
		pl.mu.Unlock()
		c.Answer(wire.Reply{Outcome: wire.Failed, NotSent: true, Err: ErrDisconnected})
		return
	}
	pl.queue.push(c)
	k := pl.conn
	wake := k != nil && !k.writing
	if wake {
		k.writing = true
	}
	pl.mu.Unlock()
	if wake {
		k.wakeWriter() // never here: this may be the reader
	}
}

// retry sends an answered undo once more: after a pause while its token's acquire may
// still be executed, and behind a probe when the server answered by an error (BUSY, NOREPLICAS, …)
// and so still holds what was to be undone: then its answer is pending. It ends with the
// command's not-after instant. What the user has no right to no repetition will do. An undo
// that has nothing to undo is not repeated for its error. WillRetry tells that there is one more
// to come, pending that its answer is waited for.
func (pl *pipeline) retry(c *wire.Command, r wire.Reply, nothing bool) (kept, pending bool) {
	refused := (r.Outcome == wire.Failed || r.Outcome == wire.Unknown) && !permissionDenied(r.Err)
	kept, pending = pl.keep(c, refused, nothing)
	if !refused && c.Retries > 0 {
		pl.sendParked()
	}
	return kept, pending
}

// keep books one more sending of an undo, if one is needed. Refused: the server answered it by
// an error.
func (pl *pipeline) keep(c *wire.Command, refused, nothing bool) (kept, pending bool) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	orphaned := pl.mayStillExecute(c.Token)
	if pl.closed || !refused && !orphaned || !orphaned && (c.Clock == nil || c.Expired() || nothing) {
		return false, false
	}
	pending = refused && c.To != nil
	next := pl.retries[c.Request]
	if next == nil {
		if !pl.node.admitsUndo() {
			return false, false
		}
		next = pl.retryLater(c, refused)
	}
	if pending {
		next.command.To = c.To
	}
	return true, pending
}

// retryTimer is an undo that will be sent once more.
type retryTimer struct {
	command *wire.Command
	timer   clock.Timer // nil: it is parked
}

// retryLater parks the undo, or sets the timer of one that the server executed. There is one
// for an undo, however often it comes by: members of a Cluster send it to and fro, and if each
// visit had one they would double each time. Called under mu.
func (pl *pipeline) retryLater(c *wire.Command, refused bool) *retryTimer {
	next := &retryTimer{command: &wire.Command{
		Request: c.Request, Node: c.Node, Retries: min(c.Retries, math.MaxUint8-1) + 1, Submitter: wire.ByLibrary,
	}}
	if pl.retries == nil {
		pl.retries = make(map[*wire.Request]*retryTimer)
	}
	pl.retries[c.Request] = next
	if refused {
		next.command.Asking = c.Asking // it goes to the same member
		pl.park(next.command)
		return next
	}
	next.timer = pl.node.cfg.Clock.AfterFunc(retryDelay(c.Retries), func() {
		pl.mu.Lock()
		mine := pl.retries[c.Request] == next
		if mine {
			pl.unbook(c.Request)
		}
		pl.mu.Unlock()
		if mine {
			pl.submit(next.command, nil)
		}
	})
	return next
}

// retryDelay returns the pause after so many repetitions: 20 ms, doubled each time, at most 1 s.
func retryDelay(times uint8) time.Duration { return min(minRetryDelay<<min(times, 10), maxRetryDelay) }

// unbook takes an undo out of those that will be sent once more. Called under mu.
func (pl *pipeline) unbook(r *wire.Request) {
	delete(pl.retries, r)
	pl.node.releaseUndo()
}

// permissionDenied: no retry helps. Of what scripts may not do, servers say it without a code.
func permissionDenied(err error) bool {
	var se *wire.ServerError
	return errors.As(err, &se) && (se.Code == "NOPERM" || deniedInScript(se.Text))
}

// cancelRetries leaves no timer of repeat behind, and returns the commands that will not be
// sent. Called under mu, on a closed lane or one that is let go.
func (pl *pipeline) cancelRetries() (left []*wire.Command) {
	for r, next := range pl.retries {
		if next.timer != nil {
			next.timer.Stop()
		}
		left = append(left, next.command)
		pl.unbook(r)
	}
	pl.parked.end()
	return left
}

// mayStillExecute reports whether an acquire of the token may still be executed. Called
// under mu.
func (pl *pipeline) mayStillExecute(token string) bool {
	orphan, ok := pl.unacked.tokens[token]
	return ok && pl.node.cfg.Clock.Now().Before(orphan.until)
}

// detachedUndo is the undo of an orphan after its not-after instant: nobody waits for it any
// more, and it holds on to nothing of the lock. A minimum hold is over by then.
func detachedUndo(c *wire.Command) *wire.Command {
	terms, r := &wire.LockArgs{}, &wire.Request{}
	terms.Set(c.Keys, c.Token)
	wire.NewRelease(r, terms)
	return &wire.Command{Request: r, Node: c.Node}
}
