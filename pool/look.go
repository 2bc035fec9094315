package pool

import (
	"errors"
	"maps"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// How often a connection's server is looked at again: a REPLICAOF by hand keeps
// connections open, and one that was cured shall soon vote again (docs/rules.md rule 18).
const (
	lookFit   = 10 * time.Second
	lookUnfit = 500 * time.Millisecond
)

// refuses is why a command is not sent on this connection: its server is unfit to
// vote, fails its health checks, or votes under another name. What undoes is always sent, and
// extensions also while checks fail. For a fleet that is known it costs two comparisons.
// Called under lane.mu.
func (k *link) refuses(c *wire.Command) error {
	if c.Op.Undoes() || c.Op == wire.Examine {
		return nil
	}
	if err := k.lane.node.follow.refuses(c, k.session.address); err != nil {
		return err
	}
	node := k.lane.node.cfg.Name
	if k.health.why != nil && c.Op != wire.Extend && !c.NodeSet.Exempts(node) {
		return k.health.why
	}
	if c.Op == wire.Poll {
		if err := k.whyNotVoting(c.NodeSet); err != nil {
			return err
		}
	}
	if c.NodeSet != nil && c.NodeSet == k.cleared {
		return nil
	}
	switch {
	case c.Guarded && (c.NodeSet == nil || c.NodeSet.Guard == nil):
		return errNoGuard
	case c.NodeSet.Exempts(node):
		return nil
	case k.unfit != nil:
		return k.unfit
	case c.NodeSet == nil:
		return nil
	case c.NodeSet.Guard == nil && k.facts.Marker != "" && c.Informational:
		return nil // and nothing is cleared
	case c.NodeSet.Guard == nil && k.facts.Marker != "":
		return guarded(node, k.facts.Marker)
	}
	if !k.joined[c.NodeSet] {
		if err := c.NodeSet.Join(k.facts.RunID, node); err != nil {
			return err
		}
		if k.joined == nil {
			k.joined = make(map[*wire.NodeSet]bool)
		}
		k.joined[c.NodeSet] = true
	}
	k.cleared = c.NodeSet
	return nil
}

// leave says that the connection is no more. Called under lane.mu.
func (k *link) leave() {
	if k.looks != nil {
		k.looks.Stop()
	}
	k.endGuards()
	for f := range k.joined {
		f.Leave(k.facts.RunID, k.lane.node.cfg.Name)
	}
	k.joined, k.cleared = nil, nil
}

// forgetEnded drops all that the connection knows of fleets that have ended: a connection
// that several Lockers share may outlive most of them. Called under lane.mu.
func (k *link) forgetEnded() {
	if k.cleared != nil && k.cleared.Ended() {
		k.cleared = nil
	}
	maps.DeleteFunc(k.joined, func(f *wire.NodeSet, _ bool) bool { return f.Ended() })
	maps.DeleteFunc(k.guards, func(f *wire.NodeSet, g *guard) bool {
		if f.Ended() {
			g.stop()
		}
		return f.Ended()
	})
}

// lookLater sets the timer for the next look. Called under lane.mu, on the connection
// that the lane has now.
func (k *link) lookLater() {
	every := k.lookEvery()
	k.health.next = k.lane.node.cfg.Clock.Now().Add(every)
	if k.looks == nil {
		k.looks = k.lane.node.cfg.Clock.AfterFunc(every, k.look)
		return
	}
	k.looks.Reset(every)
}

// look asks the server once more what it is, by a command like any other.
func (k *link) look() {
	k.lane.mu.Lock()
	due := k.lane.link == k && k.beginCheck()
	k.lane.mu.Unlock()
	if !due {
		return
	}
	r := &wire.Request{}
	wire.NewExamine(r, "")
	k.lane.submit(&wire.Command{Request: r, To: looker{k}, Submitter: wire.ByLibrary}, nil)
}

// looker is told that a look is over, however it ended, and has the next one made.
// There is never more than one under way on a connection.
type looker struct{ *link }

func (k looker) Answer(*wire.Command, wire.Reply) {
	k.lane.mu.Lock()
	stands := k.lane.link == k.link
	answered := k.health.failed == 0
	if stands {
		k.forgetEnded()
		k.lookLater()
	}
	k.lane.mu.Unlock()
	if !stands {
		return
	}
	k.lane.node.pasts.forgetEnded()
	if answered {
		k.remind()
	}
}

var errTurned = errors.New("pool: the server has become another, or changed its role; it is asked anew what it is")

// looked takes what INFO answered. It is called by the reader, which alone changes
// facts while the connection stands.
func (k *link) looked(reply any, err error) {
	k.forgetUnexecuted()
	if err != nil && !answeredBy(serverError(err), "NOPERM") {
		k.checkFailed(serverError(err)) // BUSY, or nonsense: nothing is known of the server that was not known before
		return
	}
	next := k.facts
	next.take(reply, err)
	if next.Unread == "" && !next.SameServer(k.facts.Facts) {
		k.fail(errTurned)
		return
	}
	unfit := verdict(k.lane.node.findings(next.Facts))
	k.lane.mu.Lock()
	news := (unfit == nil) != (k.whyUnfit() == nil)
	k.facts, k.unfit, k.cleared = next, unfit, nil
	k.health.failed, k.health.why = 0, nil
	k.lane.mu.Unlock()
	if news {
		k.tellFitness()
	}
}

// tellFitness logs whether the node votes. Called by the goroutine that alone changes that.
func (k *link) tellFitness() {
	if why := k.whyUnfit(); why != nil {
		k.lane.node.log("does not vote", why)
		return
	}
	k.lane.node.log("votes again", nil)
}

// turns reports whether an answer says that the server is not the master any more
// that it was, so that all has to be read anew (docs/rules.md rule 15). From a replica that
// is known as one it is no news: each undo would cost a connection. Called by the
// reader.
func (k *link) turns(err error) bool {
	var re redis.Error
	if !errors.As(err, &re) {
		return false
	}
	c := code(string(re))
	return turned(c) && (c == "LOADING" || k.facts.Role != "slave")
}

func turned(code string) bool { return code == "READONLY" || code == "MASTERDOWN" || code == "LOADING" }
