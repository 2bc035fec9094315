package pool

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// unackedAcquires are acquires that were written on a connection that ended before the reply. The
// server may execute them at any time, also after an undo on another connection
// (docs/dev/hazards.md H95: seen in 20 of 40 rounds). The old connection is therefore closed on
// the server before anything else is sent. If that is not possible, undos are repeated until the
// keys have expired.
type unackedAcquires struct {
	conns  []deadConn
	tokens map[string]unackedAcquire
}

// unackedAcquire is one of them. Its undo is kept until there is a connection again, however long
// that takes, and then for as long as a key may exist that the acquire created late.
type unackedAcquire struct {
	ttl   time.Duration
	until clock.Instant // noDeadline until there is a connection
}

const noDeadline = clock.Instant(1<<63 - 1)

type deadConn struct {
	clientID int64
	runID    string
}

// Undos are repeated after 20 ms, then at doubling intervals up to a second, because it is
// unknown when a frozen server continues. The same holds for probes (see parked).
const (
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = time.Second
)

// add records an acquire whose connection ended before the reply.
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

// prune drops acquires whose keys have expired. It visits all of them, and is called once for
// each ended connection: there may be tens of thousands.
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

// startExpiry sets how long acquires whose connection could not be closed may still create keys:
// twice their TTL, from the first contact with the server.
func (o *unackedAcquires) startExpiry(now clock.Instant) {
	for token, orphan := range o.tokens {
		if orphan.until == noDeadline {
			orphan.until = now.Add(2 * orphan.ttl)
			o.tokens[token] = orphan
		}
	}
}

func (o *unackedAcquires) clear() { o.conns, o.tokens = nil, nil }

// killDeadConns closes, on the server, those connections to the same server process that ended
// with an unanswered acquire. If all are closed, undos need no repetition: what the server has
// not executed by now it will never execute. A server with another run ID has lost its
// connections with its process.
//
// The mutex is not held during the kill, which waits for the server. No other goroutine changes
// conns meanwhile: only run calls this function and detach.
func (pl *pipeline) killDeadConns(ctx context.Context, s *rawConn, f facts) error {
	pl.mu.Lock()
	old := pl.unacked.conns
	pl.mu.Unlock()
	var left []deadConn
	refused := false
	for _, k := range old {
		switch {
		case refused || pl.node.cfg.Proxied || k.clientID == 0 || k.runID == "" || f.RunID == "":
			left = append(left, k) // the client ID may belong to another connection by now
		case k.runID != f.RunID: // closed with its process
		default:
			killed, err := s.kill(ctx, k.clientID)
			if err != nil {
				return err
			}
			if killed {
				pl.node.count.killed.Add(1)
			} else {
				refused, left = true, append(left, k) // do not ask again for each of them
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

// requeue queues a command again, as its first submission did. It never writes itself, because
// the reader may call it.
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
		k.wakeWriter() // not here: this may be the reader
	}
}

// retry sends an answered undo once more if necessary. This is the case after a pause while its
// token's acquire may still be executed. It is also the case, behind a probe, if the server
// answered by an error (BUSY, NOREPLICAS, …) and so still has the keys; the reply is then
// pending. Repetition ends at the command's NotAfter. It does not happen if the user lacks the
// right, or if there is nothing to undo. kept reports that the undo is sent once more, pending
// that its reply is waited for.
func (pl *pipeline) retry(c *wire.Command, r wire.Reply, nothing bool) (kept, pending bool) {
	refused := (r.Outcome == wire.Failed || r.Outcome == wire.Unknown) && !permissionDenied(r.Err)
	kept, pending = pl.keep(c, refused, nothing)
	if !refused && c.Retries > 0 {
		pl.sendParked()
	}
	return kept, pending
}

// keep records that an undo is sent once more, if that is necessary. refused reports that the
// server answered by an error.
func (pl *pipeline) keep(c *wire.Command, refused, nothing bool) (kept, pending bool) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	orphaned := pl.mayStillExecuteLocked(c.Token)
	if pl.closed || !refused && !orphaned || !orphaned && (c.Clock == nil || c.Expired() || nothing) {
		return false, false
	}
	pending = refused && c.To != nil
	next := pl.retries[c.Request]
	if next == nil {
		if !pl.node.admitsUndo() {
			return false, false
		}
		next = pl.retryLaterLocked(c, refused)
	}
	if pending {
		next.command.To = c.To
	}
	return true, pending
}

// retryTimer is an undo that will be sent once more.
type retryTimer struct {
	command *wire.Command
	timer   clock.Timer // nil if the undo is parked
}

// retryLaterLocked parks the undo, or starts the timer of one that the server executed. There is
// one timer for an undo, however often it comes by: shards of a Cluster redirect it to each
// other, and with one timer for each visit they would double each time.
func (pl *pipeline) retryLaterLocked(c *wire.Command, refused bool) *retryTimer {
	next := &retryTimer{command: &wire.Command{
		Request: c.Request, Node: c.Node, Retries: min(c.Retries, math.MaxUint8-1) + 1, Submitter: wire.ByLibrary,
	}}
	if pl.retries == nil {
		pl.retries = make(map[*wire.Request]*retryTimer)
	}
	pl.retries[c.Request] = next
	if refused {
		next.command.Asking = c.Asking // it goes to the same shard
		pl.parkLocked(next.command)
		return next
	}
	next.timer = pl.node.cfg.Clock.AfterFunc(retryDelay(c.Retries), func() {
		pl.mu.Lock()
		mine := pl.retries[c.Request] == next
		if mine {
			pl.unbookLocked(c.Request)
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

// unbookLocked removes an undo from those that will be sent once more.
func (pl *pipeline) unbookLocked(r *wire.Request) {
	delete(pl.retries, r)
	pl.node.releaseUndo()
}

// permissionDenied reports a missing right, which repetition does not cure. For commands of
// scripts, servers report it without a code.
func permissionDenied(err error) bool {
	var se *wire.ServerError
	return errors.As(err, &se) && (se.Code == "NOPERM" || deniedInScript(se.Text))
}

// cancelRetriesLocked stops all timers of retryLater, and returns the commands that will not be
// sent. It is called on a pipeline that is closed or drained.
func (pl *pipeline) cancelRetriesLocked() (left []*wire.Command) {
	for r, next := range pl.retries {
		if next.timer != nil {
			next.timer.Stop()
		}
		left = append(left, next.command)
		pl.unbookLocked(r)
	}
	pl.parked.end()
	return left
}

// mayStillExecuteLocked reports whether an acquire of the token may still be executed.
func (pl *pipeline) mayStillExecuteLocked(token string) bool {
	orphan, ok := pl.unacked.tokens[token]
	return ok && pl.node.cfg.Clock.Now().Before(orphan.until)
}

// detachedUndo returns the undo of an unanswered acquire for the time after its NotAfter. It has
// no owner and refers to nothing of the lock. A minimum hold is over by then.
func detachedUndo(c *wire.Command) *wire.Command {
	terms, r := &wire.LockArgs{}, &wire.Request{}
	terms.Set(c.Keys, c.Token)
	wire.NewRelease(r, terms)
	return &wire.Command{Request: r, Node: c.Node}
}
