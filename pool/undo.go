package pool

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// unackedAcquires are the acquires that were written on a connection that ended before they were
// answered. The server may execute them at any time later, also after an undo that is sent on
// another connection (docs/dev/hazards.md H95: seen in 20 of 40 rounds). So the next connection
// first kills the old connection on the server. If that is impossible, undos are repeated until
// the keys have expired. It is guarded by pipeline.mu.
type unackedAcquires struct {
	conns  []deadConn
	tokens map[string]unackedAcquire
	// some is set while there are tokens. It is read without a lock: see retry.
	some atomic.Bool
}

// unackedAcquire is what is known of one such acquire. Its undo is kept until there is a
// connection again, however long that takes, and then for as long as a key may exist that the
// acquire made late.
type unackedAcquire struct {
	ttl   time.Duration
	until clock.Instant // noDeadline until there is a connection
}

// noDeadline is later than any instant of a clock.
const noDeadline = clock.Instant(1<<63 - 1)

// deadConn identifies a connection on the server: by its client ID within one run of the server.
type deadConn struct {
	clientID int64
	runID    string
}

// Undos are repeated after 20 ms, then at doubling intervals up to a second, because nothing
// tells when a frozen server continues. The same intervals hold for probes (see parked).
const (
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = time.Second
)

// add remembers an acquire that was unanswered when its connection ended.
func (o *unackedAcquires) add(c *command.Command, f facts) {
	if o.tokens == nil {
		o.tokens = make(map[string]unackedAcquire)
	}
	o.some.Store(true)
	o.tokens[c.Token()] = unackedAcquire{ttl: c.TTL, until: noDeadline}
	old := deadConn{f.clientID, f.RunID}
	// Commands of one connection come one after another, so that comparing with the last entry
	// avoids duplicates.
	if n := len(o.conns); n == 0 || o.conns[n-1] != old {
		o.conns = append(o.conns, old)
	}
}

// prune forgets acquires whose keys have expired. It goes through all of them, and so is called
// once for each ended connection, and not for each acquire: there may be tens of thousands.
func (o *unackedAcquires) prune(now clock.Instant) {
	for token, acquire := range o.tokens {
		if !now.Before(acquire.until) {
			delete(o.tokens, token)
		}
	}
	// The connections matter only as long as one of their acquires does.
	if len(o.tokens) == 0 {
		o.clear()
	}
}

// startExpiry sets the time until which an acquire may still be executed, if its connection could
// not be killed. That is twice its TTL from the instant at which there is a connection again.
func (o *unackedAcquires) startExpiry(now clock.Instant) {
	for token, acquire := range o.tokens {
		// Only where no end is set yet: a later connection must not postpone it.
		if acquire.until == noDeadline {
			acquire.until = now.Add(2 * acquire.ttl)
			o.tokens[token] = acquire
		}
	}
}

// clear drops everything: the connections are closed on the server, or the node is.
func (o *unackedAcquires) clear() {
	o.conns, o.tokens = nil, nil
	o.some.Store(false)
}

// killDeadConns ends the connections to the same server process that ended with an acquire
// unanswered. When all are gone, undos need no repetition: the server will never execute what it
// has not executed by then. If the run ID differs, the old connections ended with their process.
func (pl *pipeline) killDeadConns(ctx context.Context, s *rawConn, f facts) error {
	// The slice is copied under mu and used without it, because each kill waits for the server.
	// Nothing is appended meanwhile: only detach appends, and it runs on this goroutine.
	pl.mu.Lock()
	old := pl.unacked.conns
	pl.mu.Unlock()
	var left []deadConn
	denied := false
	for _, k := range old {
		switch {
		case denied || pl.node.cfg.Proxied || k.clientID == 0 || k.runID == "" || f.RunID == "":
			left = append(left, k) // the client ID may be another connection's by now
		case k.runID != f.RunID: // gone with its process
		default:
			killed, err := s.kill(ctx, k.clientID)
			if err != nil {
				return err
			}
			if killed {
				pl.node.count.killed.Add(1)
			} else {
				denied, left = true, append(left, k) // the server is not asked again for each of them
			}
		}
	}
	// Under mu again, and before the connection takes commands: an undo that is sent on it
	// already counts on the result.
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.unacked.conns = left; len(left) == 0 {
		pl.unacked.clear()
	}
	pl.unacked.startExpiry(pl.node.cfg.Clock.Now())
	return nil
}

// requeue queues a command once more, as its first submission did. It must not be called under
// mu.
func (pl *pipeline) requeue(c *command.Command) {
	pl.mu.Lock()
	if drained := pl.drained; drained != nil {
		// Handing back submits the command to another pipeline, and so happens outside mu.
		pl.mu.Unlock()
		reject(c, drained)
		return
	}
	if pl.closed || pl.conn == nil && pl.downErr != nil && !c.Op.Undoes() {
		pl.mu.Unlock()
		c.Fail(ErrDisconnected)
		return
	}
	pl.queue.push(c)
	pl.wakeLocked()
	pl.mu.Unlock()
}

// retry sends an answered undo once more if that is needed. willRetry reports that there will be one
// more sending, pending that its answer is still to come.
//
// While the acquire of its token may still be executed, an undo is repeated after a pause. If the
// server answered by an error (BUSY, NOREPLICAS, …), the server may still hold what was to be
// undone. The undo is then sent behind a probe, and its answer is pending, until the command's
// not-after instant. An undo is not repeated for its error if the user lacks the permission, which
// no repetition cures, or if it has nothing to undo.
func (pl *pipeline) retry(c *command.Command, r command.Reply, nothing bool) (willRetry, pending bool) {
	failed := (r.Outcome == command.Failed || r.Outcome == command.Unknown) && !permissionDenied(r.Err)
	// The usual case needs no lock. The reader, which calls retry, also adds to unacked.
	if !failed && c.Retries == 0 && !pl.unacked.some.Load() {
		return false, false
	}
	sending := undoSending{failed: failed, nothing: nothing, perhaps: r.Outcome == command.Unknown || c.WasResent()}
	willRetry, pending = pl.scheduleRetry(c, sending)
	// The server executed a repeated undo, and so probably executes the others that wait. Outside
	// mu, as requeue demands.
	if !failed && c.Retries > 0 {
		pl.sendParked()
	}
	return willRetry, pending
}

// undoSending is what is known of an undo that was sent.
type undoSending struct {
	failed  bool // the server answered by an error, and so may still hold what was to be undone
	nothing bool // the acquire surely executed nothing, so there is nothing to undo
	perhaps bool // it, or an earlier sending, may have been executed
}

// scheduleRetry schedules one more sending of an undo if one is needed.
func (pl *pipeline) scheduleRetry(c *command.Command, s undoSending) (willRetry, pending bool) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	mayExecute := pl.mayStillExecuteLocked(c.Token())
	// An undo without a clock has no owner and no not-after instant: only an acquire that may
	// still be executed keeps it.
	if pl.closed || !s.failed && !mayExecute || !mayExecute && (c.Clock == nil || c.Expired() || s.nothing) {
		return false, false
	}
	pending = s.failed && c.To != nil
	next := pl.retries[c.Request]
	if next == nil {
		// No room: false tells the caller to answer the undo for good, so that its owner does not
		// wait for it.
		if !pl.node.admitsUndo() {
			return false, false
		}
		next = pl.retryLaterLocked(c, s)
	}
	if s.perhaps {
		next.command.MarkResend() // what it finds missing, an earlier sending may have undone
	}
	if pending {
		// The owner gets the answer of the repetition. Otherwise it has its answer, and the
		// repetition has no owner.
		next.command.To = c.To
	}
	return true, pending
}

// retryTimer is an undo that will be sent once more.
type retryTimer struct {
	command *command.Command
	timer   clock.Timer // nil if the undo is parked
}

// retryLaterLocked parks the undo, or sets the timer of an undo that the server executed. Each
// undo has one entry, however often it returns to this pipeline: shards of a Cluster may
// redirect it to and fro, and with an entry for each visit their number would double each time.
// The caller has counted it with admitsUndo.
func (pl *pipeline) retryLaterLocked(c *command.Command, s undoSending) *retryTimer {
	next := &retryTimer{command: &command.Command{
		Request: c.Request, Node: c.Node, Retries: min(c.Retries, math.MaxUint8-1) + 1,
	}}
	if pl.retries == nil {
		pl.retries = make(map[*command.Request]*retryTimer)
	}
	pl.retries[c.Request] = next
	if s.failed {
		next.command.SetAsking(c.Asking()) // it goes to the same shard
		pl.parkLocked(next.command)
		return next
	}
	next.timer = pl.node.cfg.Clock.AfterFunc(retryDelay(c.Retries), func() {
		// cancelRetries may have run while this timer was firing: it removes the entry and hands
		// the command to its caller. So the entry decides, under mu, which of the two sends or
		// answers the command.
		pl.mu.Lock()
		mine := pl.retries[c.Request] == next
		if mine {
			pl.removeRetryLocked(c.Request)
		}
		pl.mu.Unlock()
		// Outside mu, because submit locks it.
		if mine {
			pl.submit(next.command)
		}
	})
	return next
}

// retryDelay returns the pause after so many repetitions: 20 ms, doubled each time, at most 1 s.
// The count is bounded, so that the shift does not overflow.
func retryDelay(times uint8) time.Duration { return min(minRetryDelay<<min(times, 10), maxRetryDelay) }

// removeRetryLocked removes an undo from those that will be sent once more, and from their count.
func (pl *pipeline) removeRetryLocked(r *command.Request) {
	delete(pl.retries, r)
	pl.node.releaseUndo()
}

// permissionDenied reports whether an error says that the user lacks a permission, so that no
// retry helps. Servers send no code if a script does what the user may not.
func permissionDenied(err error) bool {
	var se *ServerError
	return errors.As(err, &se) && (se.Code == "NOPERM" || deniedInScript(se.Text))
}

// cancelRetriesLocked stops all timers of retries and returns the commands that will not be sent.
// It is for a pipeline that is closed or drained.
func (pl *pipeline) cancelRetriesLocked() (left []*command.Command) {
	for r, next := range pl.retries {
		if next.timer != nil {
			next.timer.Stop()
		}
		left = append(left, next.command)
		pl.removeRetryLocked(r)
	}
	pl.parked.end()
	return left
}

// mayStillExecuteLocked reports whether an acquire of the token may still be executed.
func (pl *pipeline) mayStillExecuteLocked(token string) bool {
	acquire, ok := pl.unacked.tokens[token]
	return ok && pl.node.cfg.Clock.Now().Before(acquire.until)
}

// detachedUndo returns the undo of an acquire that may still be executed, for the time after the
// not-after instant. It has no owner, and refers to nothing of the lock. A minimum hold is over
// by then.
func detachedUndo(c *command.Command) *command.Command {
	terms, r := &command.LockArgs{}, &command.Request{}
	terms.Set(slices.Clone(c.Keys), c.Token()) // those of one name are part of the lock
	command.NewRelease(r, terms)
	return &command.Command{Request: r, Node: c.Node}
}
