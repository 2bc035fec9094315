package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// How often a connection's server is checked: REPLICAOF by hand keeps connections open, and a
// repaired server should soon vote again (docs/dev/rules.md rule 18).
const (
	healthyEvery   = 10 * time.Second
	unhealthyEvery = time.Second
)

// health is the result of the health checks of a connection's server, which a server may answer by an
// error. All fields are guarded by pipeline.mu. Only the reader changes why and acquire.
type health struct {
	why     error       // why the node does not vote: its last check was answered by an error
	acquire error       // why the last acquire was answered by an error; nil after a vote
	timer   timer.Alarm // of check
	soon    bool        // a check is in flight, or the next one comes within unhealthyEvery
}

// admission decides which commands a connection carries. pipeline.mu guards it. Only the reader changes
// unfit, and reads it without mu.
type admission struct {
	unfit  error // why the server does not vote; nil if it does
	joined bool  // the server is registered as one of the Locker's
}

// admitLocked returns why a command is not sent on this connection: its server is unfit, fails its
// health checks, or votes under another name. Undos are always sent, and extensions also while checks
// fail. The first command registers the server, before its first vote.
func (pc *pipeConn) admitLocked(c *command.Command) error {
	// An undo only deletes what this library wrote, so it is right on any server. A health check
	// has to reach an unfit one.
	if c.Op.Undoes() || c.Op == command.Sweep || c.Op == command.Info {
		return nil
	}
	n := pc.pipeline.node
	// Before everything else: no setting makes an exception from the Sentinels' majority.
	if err := n.kind.rejectReason(pc.raw.Address); err != nil {
		return err
	}
	member := n.membership()
	// An extension is exempt: a server that cannot answer INFO may still keep a lock alive, and the
	// lock was granted before.
	if pc.health.why != nil && c.Op != command.Extend && !member.Unsafe {
		return pc.health.why
	}
	if c.Op == command.Poll && pc.pipeline.marker.NotVoting() {
		return pc.pipeline.whyNotVotingLocked(n.cfg.Clock.Now())
	}
	switch {
	case member.Unsafe:
		return nil
	case pc.unfit != nil:
		return pc.unfit
	case member.Servers == nil:
		return nil // it belongs to no Locker
	case member.Guard == nil && pc.facts.Marker != "" && c.Informational:
		return nil
	case member.Guard == nil && pc.facts.Marker != "":
		return session.GuardedNode(n.cfg.Name, pc.facts.Marker)
	case pc.joined:
		return nil
	}
	// Join refuses a server that another node of the Locker uses: it would vote twice.
	if err := member.Servers.Join(pc.facts.RunID, n.cfg.Name); err != nil {
		return err
	}
	pc.joined = true
	n.noteForgetful(pc.facts.Facts)
	return nil
}

// leaveLocked ends what the connection does for the Locker, before the pipeline dials again.
func (pc *pipeConn) leaveLocked() {
	// The timers first: none of them may use the connection after it has left the pipeline.
	pc.health.timer.Stop()
	pc.guard.timer.Stop()
	// The server's run ID becomes free, so the next connection, perhaps by another node name, can
	// register it.
	if pc.joined {
		pc.pipeline.node.membership().Servers.Leave(pc.facts.RunID)
	}
}

// scheduleCheckLocked starts the timer of the next check. It is called on the pipeline's present
// connection, once no check is in flight: on a frozen server checks must not pile up.
func (pc *pipeConn) scheduleCheckLocked() {
	every := healthyEvery
	if pc.health.soon = pc.unfit != nil || pc.health.why != nil; pc.health.soon {
		every = unhealthyEvery
	}
	pc.health.timer.Set(pc.pipeline.node.cfg.Clock, every, pc.check)
}

// check sends an INFO, as a command like any other. It submits after the mutex is released,
// because submit takes it.
func (pc *pipeConn) check() {
	pc.pipeline.mu.Lock()
	// A timer that fires late may belong to a connection that is gone.
	current := pc.pipeline.conn == pc
	pc.health.soon = true
	pc.pipeline.mu.Unlock()
	if !current {
		return
	}
	r := &command.Request{}
	command.NewInfo(r)
	c := &command.Command{Request: r, To: healthCheck{pc}}
	if err := pc.pipeline.submit(c, nil); err != nil {
		c.Fail(err)
	}
}

// healthCheck receives the end of a check, however it ended, and schedules the next one. At most
// one is in flight on a connection.
type healthCheck struct{ *pipeConn }

// Answer schedules the next check, if the pipeline still has this connection. After a check that
// succeeded it also asks again for the marker of the restart guard: an emptied server answers INFO as
// before.
func (hc healthCheck) Answer(*command.Command, command.Reply) {
	hc.pipeline.mu.Lock()
	defer hc.pipeline.mu.Unlock()
	if hc.pipeline.conn != hc.pipeConn {
		return
	}
	hc.scheduleCheckLocked()
	if hc.health.why == nil && hc.pipeline.marker.Asked() {
		hc.pipeline.marker.Want()
		hc.pipeline.wakeLocked()
	}
}

var errRoleChanged = errors.New("pool: server changed identity or role; reconnecting")

// onInfo applies the answer to INFO. The reader calls it, which alone changes facts while the
// connection exists. A change of the server's identity ends the connection, because everything
// else about the server must be read again.
func (pc *pipeConn) onInfo(reply any, err error) {
	pc.forgetUnexecuted()
	if err != nil && resp.Code(err) != "NOPERM" {
		// BUSY, or nonsense: the answer says nothing new about the server.
		pc.pipeline.mu.Lock()
		pc.health.why = fmt.Errorf("pool: %w: %s failed its last health check (INFO): %w", command.ErrUnfit, pc.pipeline.node.label, resp.Clean(err))
		pc.pipeline.mu.Unlock()
		return
	}
	// A copy: the facts in use change only under the mutex, and only if the server is still the
	// same.
	next := pc.facts
	next.ReadInfo(reply, err)
	// An unreadable INFO does not show another server. It makes the server unfit below.
	if next.Unread == "" && !next.SameServer(pc.facts.Facts) {
		pc.raw.End(errRoleChanged)
		return
	}
	// Computed before the lock, because it builds texts.
	unfit := session.Unfit(pc.pipeline.node.kind.faults(next.Facts))
	pc.pipeline.mu.Lock()
	pc.facts, pc.unfit = next, unfit
	pc.health.why = nil
	pc.pipeline.mu.Unlock()
}

// roleChanged reports whether an error shows that the server is no longer the master that it was,
// so that everything has to be read again (docs/dev/rules.md rule 15). From a server that is
// known to be a replica the error is nothing new: otherwise each undo would cost a connection.
// Only the reader calls it.
func (pc *pipeConn) roleChanged(err error) bool {
	c := resp.Code(err)
	return isRoleChange(c) && (c == "LOADING" || pc.facts.Role != "slave")
}

// isRoleChange reports whether an error code says that the server is not a master, or is loading
// its data.
func isRoleChange(code string) bool {
	return code == "READONLY" || code == "MASTERDOWN" || code == "LOADING"
}

// noteForgetful logs once that a server of the node forgets in a restart what it acknowledged, if the Locker
// has no restart guard. INFO shows whether there is an append-only file, and not when it is
// written: of that only the doctor knows.
func (n *Node) noteForgetful(f command.Facts) {
	if n.membership().Guard == nil && !f.AOF && !n.whole.count.forgetful.Swap(true) {
		n.whole.log("may forget locks", errors.New(n.label+" "+command.Forgets+command.Durability(f)))
	}
}
