package pool

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// How often a connection's server is checked: REPLICAOF by hand keeps connections open, and a
// repaired server should soon vote again (docs/dev/rules.md rule 18).
const (
	healthyEvery   = 10 * time.Second
	unhealthyEvery = time.Second
)

// checks is when a connection's server is checked. pipeline.mu guards it.
type checks struct {
	timer timer.Alarm // of check
	soon  bool        // a check is in flight, or the next one comes within unhealthyEvery
}

// admitLocked returns why a command is not sent on this connection: its server is unfit, fails its
// health checks, has another marker, or votes under another name. The first command registers the server, before its
// first vote.
func (pc *pipeConn) admitLocked(c *command.Command) error {
	if session.Exempt(c.Op) {
		return nil
	}
	n := pc.pipeline.node
	// Before everything else: no setting makes an exception from the Sentinels' majority.
	if err := n.kind.rejectReason(pc.raw.Address); err != nil {
		return err
	}
	member := n.membership()
	register, err := pc.state.Admit(c, member)
	switch {
	case err != nil:
		return err
	case c.Op == command.Poll && pc.pipeline.marker.NotVoting():
		return pc.pipeline.whyNotVotingLocked(n.cfg.Clock.Now())
	case !register:
		return nil
	}
	// Join refuses a server that another node of the Locker uses: it would vote twice.
	if err := member.Servers.Join(pc.state.Facts().RunID, n.cfg.Name); err != nil {
		return err
	}
	pc.state.Registered()
	n.noteForgetful(pc.state.Facts().Facts)
	return nil
}

// leaveLocked ends what the connection does for the Locker, before the pipeline dials again.
func (pc *pipeConn) leaveLocked() {
	// The timers first: none of them may use the connection after it has left the pipeline.
	pc.checks.timer.Stop()
	pc.guard.timer.Stop()
	// The server's run ID becomes free, so the next connection, perhaps by another node name, can
	// register it.
	if id := pc.state.RunID(); id != "" {
		pc.pipeline.node.membership().Servers.Leave(id)
	}
}

// scheduleCheckLocked starts the timer of the next check. It is called on the pipeline's present
// connection, once no check is in flight: on a frozen server checks must not pile up.
func (pc *pipeConn) scheduleCheckLocked() {
	every := healthyEvery
	if pc.checks.soon = !pc.state.Sound(); pc.checks.soon {
		every = unhealthyEvery
	}
	pc.checks.timer.Set(pc.pipeline.node.cfg.Clock, every, pc.check)
}

// check sends an INFO, as a command like any other. It submits after the mutex is released,
// because submit takes it.
func (pc *pipeConn) check() {
	pc.pipeline.mu.Lock()
	// A timer that fires late may belong to a connection that is gone.
	current := pc.pipeline.conn == pc
	pc.checks.soon = true
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
	if !hc.state.Failing() && hc.pipeline.marker.Asked() {
		hc.pipeline.marker.Want()
		hc.pipeline.wakeLocked()
	}
}

var errRoleChanged = errors.New("pool: server changed identity or role; reconnecting")

// onInfo applies the answer to INFO. Only the reader calls it.
func (pc *pipeConn) onInfo(reply any, err error) {
	pc.nothing.Forget(pc.pipeline.node.cfg.Clock.Now())
	pc.pipeline.mu.Lock()
	outdated := pc.state.Checked(reply, err)
	pc.pipeline.mu.Unlock()
	if outdated {
		pc.raw.End(errRoleChanged)
	}
}

// noteForgetful logs once that a server of the node forgets in a restart what it acknowledged, if the Locker
// has no restart guard. INFO shows whether there is an append-only file, and not when it is
// written: of that only the doctor knows.
func (n *Node) noteForgetful(f command.Facts) {
	if n.membership().Guard == nil && !f.AOF && !n.whole.count.forgetful.Swap(true) {
		n.whole.log("may forget locks", errors.New(n.label+" "+command.Forgets+command.Durability(f)))
	}
}
