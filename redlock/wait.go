package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// pollLatest is how long a contender that is told of releases goes without an attempt of
// its own at the most: messages are hints, and may be lost (docs/hazards.md H82).
const pollLatest = time.Second

// contend waits in line, and at its head attempts until it succeeds.
func (l *Locker) contend(ctx context.Context, w *wish) (*Lock, error) {
	began := l.now()
	v := &w.waiter
	v.enter(ctx, l, w)
	defer v.leave()
	k, n, err := v.contend()
	if err != nil {
		l.traceGaveUp(ctx, w, err, began)
		return nil, err
	}
	l.traceAcquired(k, n, began)
	return k, nil
}

// once makes an attempt, or concludes one that was begun.
func (l *Locker) once(ctx context.Context, w *wish, given *Lock) (*Lock, error) {
	if given != nil {
		return l.conclude(ctx, given)
	}
	return l.attempt(ctx, w)
}

// errBehind is the reason of an Acquire that ended in line: somebody of this process
// holds the name or contends for it.
var errBehind = fmt.Errorf("%w: in line behind others of this process", ErrHeld)

func (l *Locker) gaveUp(w *wish, cause, last error) error {
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return &waitError{op: "acquire", names: w.names, cause: cause, last: last}
}

// hopeless reports whether another attempt would be of no use.
func (l *Locker) hopeless(w *wish, err error) bool {
	var qe *QuorumError
	var we *waitError
	switch {
	case errors.As(err, &we), !errors.As(err, &qe):
		return true // the context ended, or it was not the nodes that said no
	case errors.Is(qe.Reason, ErrNoQuorum), errors.Is(qe.Reason, ErrQuarantined):
		return w.opts.failFast
	}
	foreign := 0
	for _, v := range qe.Votes {
		if errors.Is(v.Err, ErrForeignKey) {
			foreign++
		}
	}
	return foreign > len(qe.Votes)-quorum.Majority(len(qe.Votes))
}

// quarantined is how long to leave nodes in peace that can't vote yet: not much longer
// than it takes to notice that one was admitted.
func quarantined(err error) time.Duration {
	var qe *QuorumError
	if !errors.As(err, &qe) || !errors.Is(qe.Reason, ErrQuarantined) {
		return 0
	}
	return min(qe.QuarantinedFor()+5*time.Millisecond, time.Second)
}

// backoff is the pause between two attempts: from one round trip upward, doubling,
// with jitter over all of what it has grown by, so that contenders who split the
// votes part ways (docs/rules.md rule 22).
type backoff struct {
	least, most time.Duration // 0 < least <= most
	grown       time.Duration
}

func (b *backoff) next(roundTrip time.Duration) time.Duration {
	// Half of the range stays open to jitter, however long a round trip takes.
	least := max(b.least, min(roundTrip, b.most/2))
	if b.grown > b.most/2 {
		b.grown = b.most
	} else {
		b.grown = max(2*b.grown, least)
	}
	return least + rand.N(min(b.grown, b.most-least)+1)
}

// scene is what a contender sees of a name that it did not get.
type scene struct {
	held bool          // one token stands on a quorum: it is no split vote
	free time.Duration // how long until that quorum expires unless it is extended; negative: never
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
	r := l.inspection(nil, w.names)
	r.pace, r.start = everyVote, l.now()
	more := !w.once && qe.fewRefused()
	if more {
		r.pace = lossPatient // a frozen node is not waited for where the others tell enough
	}
	r.ask(l.set.timeout(w.ttl), func(node int) (wire.Reply, bool) {
		o := qe.Votes[node].Outcome
		return wire.Reply{Outcome: wire.Refused, Unsent: true}, o != wire.Refused && (!more || o != wire.Unknown)
	})
	r.wait(ctx.Done())
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ballots {
		why := holder(r.ballots[i].holds)
		if why != nil && (qe.Votes[i].Outcome == wire.Refused || errors.Is(why, ErrForeignKey)) {
			qe.Votes[i].Err = why
		}
	}
	return r.scene(), &qe
}

// fewRefused reports whether nobody granted, and too few refused to tell a holder from a
// split vote: while a minority is down, the first refusals decide an attempt.
func (e *QuorumError) fewRefused() bool {
	refused := 0
	for _, v := range e.Votes {
		switch v.Outcome {
		case Granted:
			return false
		case Refused:
			refused++
		}
	}
	return refused < e.Need
}

// scene finds the name that one token holds on a quorum, for the longest. Called under mu.
func (r *round) scene() scene {
	var s scene
	for name := range r.names {
		held := make(map[string][]time.Duration)
		for i := range r.ballots {
			if h := r.ballots[i].holds; len(h) > name && !h[name].Free() {
				held[h[name].Value] = append(held[h[name].Value], h[name].TTL)
			}
		}
		for _, left := range held {
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
