package pool

import (
	"errors"
	"maps"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// How often a connection's server is looked at again: a REPLICAOF by hand keeps
// connections open, and one that was cured shall soon vote again (docs/dev/rules.md rule 18).
const (
	healthyEvery   = 10 * time.Second
	unhealthyEvery = 500 * time.Millisecond
)

// rejectReason is why a command is not sent on this connection: its server is unfit to
// vote, fails its health checks, or votes under another name. What undoes is always sent, and
// extensions also while checks fail. For a fleet that is known it costs two comparisons.
// Called under lane.mu.
func (pc *pipeConn) rejectReason(c *wire.Command) error {
	if c.Op.Undoes() || c.Op == wire.Examine {
		return nil
	}
	if err := pc.pipeline.node.resolver.rejectReason(c, pc.raw.address); err != nil {
		return err
	}
	node := pc.pipeline.node.cfg.Name
	if pc.health.why != nil && c.Op != wire.Extend && !c.NodeSet.Exempts(node) {
		return pc.health.why
	}
	if c.Op == wire.Poll {
		if err := pc.whyNotVotingLocked(c.NodeSet); err != nil {
			return err
		}
	}
	if c.NodeSet != nil && c.NodeSet == pc.approved {
		return nil
	}
	switch {
	case c.Guarded && (c.NodeSet == nil || c.NodeSet.Guard == nil):
		return errNoGuard
	case c.NodeSet.Exempts(node):
		return nil
	case pc.unfit != nil:
		return pc.unfit
	case c.NodeSet == nil:
		return nil
	}
	if err := pc.markerError(c.NodeSet); err != nil {
		if c.Informational {
			return nil // and nothing is cleared
		}
		return err
	}
	if !pc.registered[c.NodeSet] {
		if err := c.NodeSet.Join(pc.facts.RunID, node); err != nil {
			return err
		}
		if pc.registered == nil {
			pc.registered = make(map[*wire.NodeSet]bool)
		}
		pc.registered[c.NodeSet] = true
	}
	pc.approved = c.NodeSet
	return nil
}

// markerError returns why the markers that the server had when the connection was made keep it
// from voting for a set of nodes.
func (pc *pipeConn) markerError(s *wire.NodeSet) error {
	node := pc.pipeline.node.cfg.Name
	switch {
	case pc.facts.OldMarker:
		return errOldMarker(node)
	case s.Guard == nil && pc.facts.Marker != "":
		return errGuardedNode(node, pc.facts.Marker)
	}
	return nil
}

// unregister says that the connection is no more. Called under lane.mu.
func (pc *pipeConn) unregister() {
	if pc.healthTimer != nil {
		pc.healthTimer.Stop()
	}
	pc.endGuardsLocked()
	for f := range pc.registered {
		f.Leave(pc.facts.RunID, pc.pipeline.node.cfg.Name)
	}
	pc.registered, pc.approved = nil, nil
}

// forgetEnded drops all that the connection knows of fleets that have ended: a connection
// that several Lockers share may outlive most of them. Called under lane.mu.
func (pc *pipeConn) forgetEnded() {
	if pc.approved != nil && pc.approved.Ended() {
		pc.approved = nil
	}
	maps.DeleteFunc(pc.registered, func(f *wire.NodeSet, _ bool) bool { return f.Ended() })
	maps.DeleteFunc(pc.guards, func(f *wire.NodeSet, g *guardState) bool {
		if f.Ended() {
			g.stopLocked()
		}
		return f.Ended()
	})
}

// scheduleCheck sets the timer for the next look. Called under lane.mu, on the connection
// that the lane has now.
func (pc *pipeConn) scheduleCheck() {
	every := pc.checkEvery()
	pc.health.next = pc.pipeline.node.cfg.Clock.Now().Add(every)
	if pc.healthTimer == nil {
		pc.healthTimer = pc.pipeline.node.cfg.Clock.AfterFunc(every, pc.check)
		return
	}
	pc.healthTimer.Reset(every)
}

// check asks the server once more what it is, by a command like any other.
func (pc *pipeConn) check() {
	pc.pipeline.mu.Lock()
	due := pc.pipeline.conn == pc && pc.beginCheck()
	pc.pipeline.mu.Unlock()
	if !due {
		return
	}
	r := &wire.Request{}
	wire.NewExamine(r, "")
	pc.pipeline.submit(&wire.Command{Request: r, To: healthCheck{pc}, Submitter: wire.ByLibrary}, nil)
}

// healthCheck is told that a look is over, however it ended, and has the next one made.
// There is never more than one under way on a connection.
type healthCheck struct{ *pipeConn }

func (hc healthCheck) Answer(*wire.Command, wire.Reply) {
	hc.pipeline.mu.Lock()
	stands := hc.pipeline.conn == hc.pipeConn
	answered := hc.health.failed == 0
	if stands {
		hc.forgetEnded()
		hc.scheduleCheck()
	}
	hc.pipeline.mu.Unlock()
	if !stands {
		return
	}
	hc.pipeline.node.histories.forgetEnded()
	if answered {
		hc.recheckAll()
	}
}

var errRoleChanged = errors.New("pool: the server has become another, or changed its role; it is asked anew what it is")

// onInfo takes what INFO answered. It is called by the reader, which alone changes
// facts while the connection stands.
func (pc *pipeConn) onInfo(reply any, err error) {
	pc.forgetUnexecuted()
	if err != nil && !answeredBy(serverError(err), "NOPERM") {
		pc.checkFailed(serverError(err)) // BUSY, or nonsense: nothing is known of the server that was not known before
		return
	}
	next := pc.facts
	next.parse(reply, err)
	if next.Unread == "" && !next.SameServer(pc.facts.Facts) {
		pc.fail(errRoleChanged)
		return
	}
	unfit := unfitError(pc.pipeline.node.findings(next.Facts))
	pc.pipeline.mu.Lock()
	news := (unfit == nil) != (pc.whyUnfit() == nil)
	pc.facts, pc.unfit, pc.approved = next, unfit, nil
	pc.health.failed, pc.health.why = 0, nil
	pc.pipeline.mu.Unlock()
	if news {
		pc.logFitness()
	}
}

// logFitness logs whether the node votes. Called by the goroutine that alone changes that.
func (pc *pipeConn) logFitness() {
	if why := pc.whyUnfit(); why != nil {
		pc.pipeline.node.log("does not vote", why)
		return
	}
	pc.pipeline.node.log("votes again", nil)
}

// roleChanged reports whether an answer says that the server is not the master any more
// that it was, so that all has to be read anew (docs/dev/rules.md rule 15). From a replica that
// is known as one it is no news: each undo would cost a connection. Called by the
// reader.
func (pc *pipeConn) roleChanged(err error) bool {
	var re redis.Error
	if !errors.As(err, &re) {
		return false
	}
	c := code(string(re))
	return isRoleChange(c) && (c == "LOADING" || pc.facts.Role != "slave")
}

func isRoleChange(code string) bool {
	return code == "READONLY" || code == "MASTERDOWN" || code == "LOADING"
}
