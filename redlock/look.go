package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// scene is what a contender sees of a name that it did not get.
type scene struct {
	held bool          // it is no split vote: one token stands on a quorum, or nobody can have one
	free time.Duration // how long until that can be over without a release; negative: nobody knows
}

// look asks nodes who holds the names, after an attempt that others had the better of. It
// waits for those that refused, who answered just now, and for others only while they can
// show a token on a quorum: a frozen one must hold nobody up where the others tell.
type look struct {
	*round
	votes []Vote // of the attempt
}

// explain asks the nodes that refused who holds the name, and returns the error with
// what they said. It costs one round trip after a refusal, and nothing otherwise. The
// error given stays as it is: a hook may be reading it. For a contender that is to wait
// it asks also whom the attempt did not wait for, where those that refused are too few to
// tell.
func (l *Locker) explain(ctx context.Context, w *wish, err error) (scene, error) {
	var refused *QuorumError
	if !errors.As(err, &refused) || !errors.Is(refused.Reason, ErrHeld) || ctx.Err() != nil {
		return scene{}, err
	}
	qe := *refused
	qe.Votes = slices.Clone(refused.Votes)
	k := l.look(w, refused)
	select {
	case <-k.wake:
	case <-ctx.Done():
	case <-l.closing: // what is found would be of no use
	}
	l.alarms.Clear(&k.alarm)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.ballots {
		why := holder(k.holds[i])
		if why != nil && (qe.Votes[i].Outcome == wire.Refused || errors.Is(why, ErrForeignKey)) {
			qe.Votes[i].Err = why
		}
	}
	seen := k.scene()
	if !seen.held && !w.once {
		seen.free, seen.held = w.waiter.stuck(k)
	}
	return seen, &qe
}

// look begins one. Its wake gets a value when enough is known.
func (l *Locker) look(w *wish, refused *QuorumError) *look {
	k := &look{round: l.inspection(nil, w.names), votes: refused.Votes}
	for i := range k.ballots {
		k.ballots[i].cmd.To = k
	}
	timeout, more := l.set.timeout(w.ttl), !w.once && refused.fewRefused()
	if took, granted := refused.split(); more && granted {
		timeout = min(timeout, grace(took, w.tries)) // it may be a split vote: see hurry
	}
	k.pace, k.start = everyVote, l.now()
	k.ask(timeout, func(node int) (wire.Reply, bool) {
		v := &k.votes[node]
		return wire.Reply{Outcome: wire.Refused, Unsent: true}, v.Outcome != wire.Refused && (!more || !v.unheard())
	})
	return k
}

// Answer takes one node's answer.
func (k *look) Answer(c *wire.Command, rep wire.Reply) {
	k.round.Answer(c, rep)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.decided.Load() || !k.told() {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// told reports whether nothing that is still to come can show a token on a quorum, or one
// is seen there already. Called under mu.
func (k *look) told() bool {
	open, most := 0, 0
	for i := range k.ballots {
		if k.ballots[i].voted {
			continue
		}
		if open++; k.votes[i].Outcome == wire.Refused {
			return false
		}
	}
	for name := range k.names {
		for _, left := range k.holders(name) {
			most = max(most, len(left))
		}
	}
	return most >= k.tally.Need() || most+open < k.tally.Need()
}

// unheard reports whether an attempt was decided before the node answered, and not by
// its silence.
func (v *Vote) unheard() bool { return errors.Is(v.Err, errUndecided) && v.Took == 0 }

// fewRefused reports whether too few refused to show a token on a quorum, and together
// with those that the attempt did not wait for they are enough: while a minority is down,
// the first refusals decide. Of an odd number of nodes that all vote they never are.
func (e *QuorumError) fewRefused() bool {
	refused, unheard := 0, 0
	for i := range e.Votes {
		switch v := &e.Votes[i]; {
		case v.Outcome == Refused:
			refused++
		case v.unheard():
			unheard++
		}
	}
	return refused < e.Need && refused+unheard >= e.Need
}

// split reports whether the attempt had a vote, and how long refusals took.
func (e *QuorumError) split() (took time.Duration, granted bool) {
	for _, v := range e.Votes {
		switch v.Outcome {
		case Granted:
			granted = true
		case Refused:
			took = max(took, v.Took)
		}
	}
	return took, granted
}

// holders lists the tokens that hold a name, and for how long on each node. Called under mu.
func (r *round) holders(name int) map[string][]time.Duration {
	held := make(map[string][]time.Duration)
	for i := range r.ballots {
		if h := r.holds[i]; len(h) > name && !h[name].Free() {
			held[h[name].Value] = append(held[h[name].Value], h[name].TTL)
		}
	}
	return held
}

// scene finds the name that one token holds on a quorum, for the longest: until the quorum
// expires, unless it is extended. Called under mu.
func (r *round) scene() scene {
	var s scene
	for name := range r.names {
		for _, left := range r.holders(name) {
			if len(left) < r.tally.Need() {
				continue
			}
			slices.Sort(left)
			// It is free when too few are left for a quorum.
			if d := left[len(left)-r.tally.Need()]; !s.held || d < 0 || s.free >= 0 && d > s.free {
				s.held, s.free = true, d
			}
		}
	}
	return s
}

// holder says what stands in the way, by the first key that isn't free.
func holder(holds []wire.Hold) error {
	for _, h := range holds {
		switch {
		case h.Foreign != "":
			return ErrForeignKey
		case !h.Free():
			return &HeldError{Owner: wire.Owner(h.Value), Left: h.TTL}
		}
	}
	return nil
}
