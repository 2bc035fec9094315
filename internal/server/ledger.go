package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// ledger is what is still to be deleted on one server: undos that it answered by errors, and what acquires make that it may
// execute late (docs/dev/rules.md rule 6). It is told what happens, and queues what is to be sent. Package undo decides. It
// outlives connections. Its methods are safe for concurrent use.
type ledger struct {
	cfg      *Config
	queue    *sendQueue
	standing *standing
	up       func() bool // whether there is a connection

	mu     sync.Mutex // guards what follows, but for late.Some. Nothing is queued or answered under it.
	closed bool
	late   undo.Late
	sweeps timer.Alarm // of sweep
	parked undo.Parked // each was counted by Shared.admitsUndo
	probes timer.Alarm // of probe: set while undos wait
}

var errTooManyUnacked = fmt.Errorf(
	"pool: %d acquires may still be executed: what further ones make is not undone, and remains until its TTL", undo.MaxLate)

// begin is told that a connection begins. It may reach a server that executes undos again.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked.Soon()
	l.probeLaterLocked()
	l.sweepLaterLocked()
}

// ended is told that a connection has ended. It forgets acquires whose keys have expired.
func (l *ledger) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late.Prune(l.cfg.now())
}

// lost is told an acquire that was unanswered when its connection ended: the server may execute it later.
func (l *ledger) lost(c *command.Command, on undo.Conn) {
	l.mu.Lock()
	kept := l.late.Lost(c, on)
	l.mu.Unlock()
	if !kept {
		l.cfg.countDropped(errTooManyUnacked)
	}
}

// undone is told that an undo was answered, or is too late for its owner. If its acquire may still be executed, sweeps begin.
func (l *ledger) undone(c *command.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.undoneLocked(c)
}

func (l *ledger) undoneLocked(c *command.Command) {
	l.late.Undone(c, l.cfg.now())
	l.sweepLaterLocked()
}

// passedOn is told that another master gets an undo that this one was sent.
func (l *ledger) passedOn(c *command.Command) {
	l.undone(c) // here, while its acquire may still be executed (docs/dev/rules.md rule 6)
	if c.Retries > 0 {
		l.follow() // the server takes commands again; those that fail elsewhere are parked there
	}
}

// answered is told the answer to an undo. One that the server answered by an error (BUSY, NOREPLICAS, …) is parked, because the
// server may still hold what was to be undone. It reports whether it did. The owner then gets another answer, until the command's
// not-after instant. An undo is not parked if the user lacks the permission, which no repetition cures, or if it has nothing to
// undo, or if there is no room.
func (l *ledger) answered(c *command.Command, r command.Reply, nothing bool) (retrying bool) {
	failed := (r.Outcome == command.Failed || r.Outcome == command.Unknown) && !reply.Denied(r.Err)
	// The usual case needs no lock. The reader, which calls answered, also tells what is lost.
	if !failed && c.Retries == 0 && !l.late.Some() {
		return false
	}
	l.mu.Lock()
	l.undoneLocked(c)
	if retrying = failed && !nothing && !l.closed && !c.Expired(l.queue.now()) && l.cfg.admitsUndo(); retrying &&
		l.parked.Add(c, r.Outcome == command.Unknown || c.WasResent()) {
		l.probeLaterLocked()
	}
	l.mu.Unlock()
	if !failed && c.Retries > 0 { // the server probably executes the others as well
		l.follow()
	}
	return retrying
}

// sweepLaterLocked sets the timer to the next sweep. Without a connection it does not: begin does so for the next one.
func (l *ledger) sweepLaterLocked() {
	if due := l.late.Due(); due != 0 && l.up() {
		l.sweeps.Set(l.cfg.Settings.Clock, max(0, due.Sub(l.cfg.now())), l.sweep)
	}
}

// sweep is the timer's function. It sends one sweep, unless the server answers by errors (it then gets checks and probes, two
// a second), or undos are parked beside a node that is unfit.
func (l *ledger) sweep() {
	if c := l.nextSweep(); c != nil {
		l.queue.again(c)
	}
}

func (l *ledger) nextSweep() (next *command.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.now()
	if due := l.late.Due(); !l.up() || due == 0 || now.Before(due) {
		return nil
	}
	failing, unfit := l.standing.failing()
	parked := l.parked.Len() > 0
	if !failing && (!unfit || !parked) {
		next = l.late.Sweep(now, !l.cfg.OneSlot && !l.cfg.Proxied)
	}
	least := undo.SweepPause
	if unfit || parked { // a check or a probe comes each second
		least *= 2
	}
	l.late.Wait(now.Add(least))
	l.sweepLaterLocked()
	return next
}

// probeLaterLocked sets the timer of the next probe if undos wait.
func (l *ledger) probeLaterLocked() {
	if l.parked.Len() > 0 {
		l.probes.Set(l.cfg.Settings.Clock, l.parked.Pause(), l.probe)
	}
}

// probe is the timer's function. It drops the undos that have expired, and sends the oldest of the others.
func (l *ledger) probe() {
	now := l.queue.now() // once for all: there may be 10,000
	l.mu.Lock()
	late := l.unparkedLocked(l.parked.Probed(now))
	l.mu.Unlock()
	for _, c := range late {
		c.Fail(command.ErrExpired)
	}
	if l.up() {
		l.sendParked(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probeLaterLocked()
}

// follow sends the followers of an undo that the server executed.
func (l *ledger) follow() {
	l.mu.Lock()
	l.parked.Soon()
	l.mu.Unlock()
	l.sendParked(undo.Followers)
}

// sendParked queues the oldest undos, at most so many. It queues none while the queue is long: the next probe will have followers, too.
func (l *ledger) sendParked(most int) {
	most = min(most, maxBatch-l.queue.len())
	l.mu.Lock()
	next := l.unparkedLocked(l.parked.Take(most))
	l.mu.Unlock()
	for _, c := range next {
		l.queue.again(c)
	}
}

// unparkedLocked returns undos that are parked no more.
func (l *ledger) unparkedLocked(undos []*command.Command) []*command.Command {
	for range undos {
		l.cfg.releaseUndo()
	}
	return undos
}

// removeIf removes and returns the parked undos for which a condition is true. The condition is asked under the mutex.
func (l *ledger) removeIf(condition func(c *command.Command) bool) []*command.Command {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unparkedLocked(l.parked.RemoveIf(condition))
}

// drain forgets everything. It returns the parked undos, and a sweep of each acquire that was to be swept, for the server that has the
// keys now.
func (l *ledger) drain() (parked, sweeps []*command.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sweeps = l.late.SweepEach(l.cfg.now())
	l.late.Clear()
	l.sweeps.Stop()
	l.probes.Stop() // a probe that is already firing finds no undo
	return l.unparkedLocked(l.parked.Take(l.parked.Len())), sweeps
}

// close is drain for a node that is closed: undos that are answered later are not parked.
func (l *ledger) close() (parked []*command.Command) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	parked, _ = l.drain()
	return parked
}

// endDeadConns ends on the server the connections that ended with an acquire unanswered. The caller sends undos only afterwards, so
// the server executes no unread command of the old connections behind them.
func (l *ledger) endDeadConns(ctx context.Context, conn *transport.Conn, f session.Facts) error {
	// Each kill waits for the server, so the mutex is free meanwhile. Nothing is added: lost is called by this goroutine only.
	runID := f.RunID
	if l.cfg.Proxied {
		runID = "" // it may be another server's, and so may be the client IDs
	}
	l.mu.Lock()
	end, left := l.late.ToEnd(runID)
	l.mu.Unlock()
	one := min(1, len(end)) // if the user may not kill it, the server is not asked for each of the others
	alive, err := kill(ctx, conn, end[:one])
	if err == nil && len(alive) == 0 {
		alive, err = kill(ctx, conn, end[one:])
	} else {
		alive = end
	}
	if err != nil {
		return err
	}
	left = append(left, alive...)
	// Before the connection takes commands: an undo that is sent on it already counts on the result.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late.Connected(left, l.cfg.now())
	return nil
}

// kill closes older connections on the server, in one round trip (docs/dev/rules.md rule 6). It returns those that may live.
func kill(ctx context.Context, conn *transport.Conn, old []undo.Conn) (alive []undo.Conn, err error) {
	if len(old) == 0 {
		return nil, nil
	}
	kills := make([]transport.Call, len(old))
	for i, c := range old {
		kills[i] = transport.Call{Name: "CLIENT", Args: []any{"KILL", "ID", c.ClientID}}
	}
	// CLIENT KILL answers after the old connection was ended on the server, so the order is certain
	// when Ask returns.
	replies, err := conn.AskMore(ctx, kills...)
	if err != nil {
		return nil, err
	}
	for i, r := range replies {
		// 0 means that no such client is left, which is as good. Any reply but a number
		// means that the user may not kill.
		if _, notNumber := redis.Int64(r.Value, r.Err); notNumber != nil {
			alive = append(alive, old[i])
		}
	}
	return alive, nil
}
