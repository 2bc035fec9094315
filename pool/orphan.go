package pool

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// orphans are the acquires that were written on a connection that ended before
// they were answered. The server may execute them at any time later, also behind
// an undo that takes another connection (docs/hazards.md H95: seen in 20 of 40 rounds).
// So the old connection is killed on the server before anything else is sent;
// where that can't be, undos are repeated until the keys have died by their TTL.
type orphans struct {
	links  []oldLink
	tokens map[string]orphan
}

// orphan is what is known of one: its undo is kept until a connection stands again,
// however long that takes, and then for as long as a key may live that it made late.
type orphan struct {
	ttl   time.Duration
	until clock.Instant // undetermined until a connection stands
}

const undetermined = clock.Instant(1<<63 - 1)

type oldLink struct {
	clientID int64
	runID    string
}

// Undos are repeated after 20 ms, then at doubling intervals up to a
// second: a frozen server goes on at a time that nobody knows. So are probes (see parked).
const (
	repeatSoonest = 20 * time.Millisecond
	repeatLatest  = time.Second
)

// add remembers an acquire that died with its connection.
func (o *orphans) add(c *wire.Command, f facts) {
	if o.tokens == nil {
		o.tokens = make(map[string]orphan)
	}
	o.tokens[c.Token] = orphan{ttl: c.TTL, until: undetermined}
	old := oldLink{f.clientID, f.RunID}
	if n := len(o.links); n == 0 || o.links[n-1] != old {
		o.links = append(o.links, old)
	}
}

// sweep forgets orphans whose keys have died. It looks at all of them, and so goes
// once over those of a link and not with each: there may be ten thousands.
func (o *orphans) sweep(now clock.Instant) {
	for token, orphan := range o.tokens {
		if !now.Before(orphan.until) {
			delete(o.tokens, token)
		}
	}
	if len(o.tokens) == 0 {
		o.links = nil
	}
}

// survive sets the time for which orphans are feared whose connection could not be
// killed: twice their TTL, from when the server is heard of again.
func (o *orphans) survive(now clock.Instant) {
	for token, orphan := range o.tokens {
		if orphan.until == undetermined {
			orphan.until = now.Add(2 * orphan.ttl)
			o.tokens[token] = orphan
		}
	}
}

func (o *orphans) clear() { o.links, o.tokens = nil, nil }

// killOld ends the connections of the same server process that died with an
// acquire unanswered. When all are gone, undos need no repetition any more: what
// the server had not executed by now it never will. A server of another run ID
// has lost its connections with its process.
func (l *lane) killOld(ctx context.Context, s *session, f facts) error {
	l.mu.Lock()
	old := l.orphans.links
	l.mu.Unlock()
	var left []oldLink
	refused := false
	for _, k := range old {
		switch {
		case refused || l.node.cfg.Proxied || k.clientID == 0 || k.runID == "" || f.RunID == "":
			left = append(left, k) // whose connection that number is now, nobody knows
		case k.runID != f.RunID: // gone with its process
		default:
			killed, err := s.kill(ctx, k.clientID)
			if err != nil {
				return err
			}
			if killed {
				l.node.count.killed.Add(1)
			} else {
				refused, left = true, append(left, k) // and not asked again for each of them
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.orphans.links = left; len(left) == 0 {
		l.orphans.clear()
	}
	l.orphans.survive(l.node.cfg.Clock.Now())
	return nil
}

// again queues a command once more, as by its first submission.
func (l *lane) again(c *wire.Command) {
	l.mu.Lock()
	if l.letGo {
		l.mu.Unlock()
		letGoError{l.node.member.cluster}.handBack(c)
		return
	}
	if l.closed || l.link == nil && l.down != nil && !c.Op.Undoes() {
		l.mu.Unlock()
		c.Answer(wire.Reply{Outcome: wire.Failed, NotSent: true, Err: ErrDisconnected})
		return
	}
	l.queue.push(c)
	k := l.link
	wake := k != nil && !k.writing
	if wake {
		k.writing = true
	}
	l.mu.Unlock()
	if wake {
		k.wakeWriter() // never here: this may be the reader
	}
}

// repeat sends an answered undo once more: after a pause while its token's acquire may
// still be executed, and behind a probe when the server answered by an error (BUSY, NOREPLICAS, …)
// and so still holds what was to be undone: then its answer is pending. It ends with the
// command's not-after instant. What the user has no right to no repetition will do. An undo
// that has nothing to undo is not repeated for its error. WillRetry tells that there is one more
// to come, pending that its answer is waited for.
func (l *lane) repeat(c *wire.Command, r wire.Reply, nothing bool) (kept, pending bool) {
	refused := (r.Outcome == wire.Failed || r.Outcome == wire.Unknown) && !forbidden(r.Err)
	kept, pending = l.keep(c, refused, nothing)
	if !refused && c.Retries > 0 {
		l.sendParked()
	}
	return kept, pending
}

// keep books one more sending of an undo, if one is needed. Refused: the server answered it by
// an error.
func (l *lane) keep(c *wire.Command, refused, nothing bool) (kept, pending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	orphaned := l.orphaned(c.Token)
	if l.closed || !refused && !orphaned || !orphaned && (c.Clock == nil || c.Expired() || nothing) {
		return false, false
	}
	pending = refused && c.To != nil
	next := l.repeats[c.Request]
	if next == nil {
		if !l.node.admitsUndo() {
			return false, false
		}
		next = l.repeatLater(c, refused)
	}
	if pending {
		next.command.To = c.To
	}
	return true, pending
}

// repetition is an undo that will be sent once more.
type repetition struct {
	command *wire.Command
	timer   clock.Timer // nil: it is parked
}

// repeatLater parks the undo, or sets the timer of one that the server executed. There is one
// for an undo, however often it comes by: members of a Cluster send it to and fro, and if each
// visit had one they would double each time. Called under mu.
func (l *lane) repeatLater(c *wire.Command, refused bool) *repetition {
	next := &repetition{command: &wire.Command{
		Request: c.Request, Node: c.Node, Retries: min(c.Retries, math.MaxUint8-1) + 1, Submitter: wire.ByLibrary,
	}}
	if l.repeats == nil {
		l.repeats = make(map[*wire.Request]*repetition)
	}
	l.repeats[c.Request] = next
	if refused {
		next.command.Asking = c.Asking // it goes to the same member
		l.park(next.command)
		return next
	}
	next.timer = l.node.cfg.Clock.AfterFunc(doubled(c.Retries), func() {
		l.mu.Lock()
		mine := l.repeats[c.Request] == next
		if mine {
			l.unbook(c.Request)
		}
		l.mu.Unlock()
		if mine {
			l.submit(next.command, nil)
		}
	})
	return next
}

// doubled returns the pause after so many repetitions: 20 ms, doubled each time, at most 1 s.
func doubled(times uint8) time.Duration { return min(repeatSoonest<<min(times, 10), repeatLatest) }

// unbook takes an undo out of those that will be sent once more. Called under mu.
func (l *lane) unbook(r *wire.Request) {
	delete(l.repeats, r)
	l.node.releaseUndo()
}

// forbidden: no retry helps. Of what scripts may not do, servers say it without a code.
func forbidden(err error) bool {
	var se *wire.ServerError
	return errors.As(err, &se) && (se.Code == "NOPERM" || deniedInScript(se.Text))
}

// endRepeats leaves no timer of repeat behind, and returns the commands that will not be
// sent. Called under mu, on a closed lane or one that is let go.
func (l *lane) endRepeats() (left []*wire.Command) {
	for r, next := range l.repeats {
		if next.timer != nil {
			next.timer.Stop()
		}
		left = append(left, next.command)
		l.unbook(r)
	}
	l.parked.end()
	return left
}

// orphaned reports whether an acquire of the token may still be executed. Called
// under mu.
func (l *lane) orphaned(token string) bool {
	orphan, ok := l.orphans.tokens[token]
	return ok && l.node.cfg.Clock.Now().Before(orphan.until)
}

// legacy is the undo of an orphan after its not-after instant: nobody waits for it any
// more, and it holds on to nothing of the lock. A minimum hold is over by then.
func legacy(c *wire.Command) *wire.Command {
	terms, r := &wire.LockArgs{}, &wire.Request{}
	terms.Set(c.Keys, c.Token)
	wire.NewRelease(r, terms)
	return &wire.Command{Request: r, Node: c.Node}
}
