package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// attempt asks all nodes once, with a token of its own (docs/hazards.md H3), or concludes an
// attempt that was begun. It undoes whatever an attempt that fails may have written, and then
// queries the nodes for the reason.
func (l *Locker) attempt(ctx context.Context, w *wish, start clock.Instant, begun *Lock) (*Lock, scene, error) {
	k := begun
	if k == nil {
		var err error
		if k, err = l.prepare(ctx, w, start); err != nil {
			return nil, scene{}, err
		}
		k.talk.acquire.submit(nil, nil)
	}
	if lost := l.conclude(ctx, k); lost != nil {
		w.tries++
		decided := k.talk.undo.start
		seen, lost := l.explain(ctx, w, k, lost)
		l.traceAttempt(k, lost, decided)
		seen.took = decided.Sub(start)
		return nil, seen, lost
	}
	if l.isClosed() { // won while Close listed the held ones
		k.finish(ErrClosed, undoKeys)
		return nil, scene{}, ErrClosed
	}
	return k, scene{}, nil
}

// prepare makes an attempt that has only to be submitted. The clock was read for it:
// before the first send.
func (l *Locker) prepare(ctx context.Context, w *wish, start clock.Instant) (*Lock, error) {
	k := l.newLock(ctx, w)
	if err := l.register(k); err != nil {
		return nil, err
	}
	r := &k.talk.acquire
	r.start, k.began = start, start
	r.req.Clock, r.req.NotAfter = l.set.clock, quorum.Until(r.start, k.ttl, l.set.drift)
	r.open(l.set.timeout(w.ttl))
	return k, nil
}

// conclude waits for the outcome of an attempt that was submitted, and begins the hold or the undo.
func (l *Locker) conclude(ctx context.Context, k *Lock) error {
	r, until := &k.talk.acquire, k.talk.acquire.req.NotAfter
	in := r.wait(ctx.Done())
	now := l.now()
	err := k.verdict(ctx, in, until, now)
	if err == nil && l.set.fencing {
		err = k.settleFence(ctx, until)
		now = l.now()
	}
	if err != nil {
		k.takeBack(undoAttempt)
		return err
	}
	l.waiters.took(k)
	k.hold(until, now)
	l.traceAttempt(k, nil, now)
	return nil
}

// tooShort reports whether a validity is of no use: none before the context ends, or
// less than was asked for.
func (k *Lock) tooShort(left time.Duration) bool {
	return left <= k.opts.stopMargin || left < k.opts.minValidity
}

// newLock draws the token and makes everything that one acquisition needs in few
// allocations: it is the hot path.
func (l *Locker) newLock(ctx context.Context, w *wish) *Lock {
	ttl := max(w.ttl, w.opts.minHold)
	k := &Lock{l: l, opts: w.opts, outer: w.outer, given: ctx, bound: w.bound, ttl: ttl, longest: ttl}
	k.names = w.names
	if len(w.names) == 1 {
		k.one[0] = w.names[0]
		k.names = k.one[:]
	}
	k.terms.Set(l.keys(k.names), wire.NewToken(l.set.owner))
	k.terms.Guarded = l.set.guarded
	k.talk = k.newTalk()
	if l.set.fencing {
		k.fenced(&k.talk.acquire.req)
	} else {
		wire.NewAcquire(&k.talk.acquire.req, &k.terms, ttl, l.set.maxTTL)
	}
	return k
}

// verdict is nil when the attempt is a lock now. The clock was read after the
// decision: a quorum alone is not enough (docs/hazards.md H6).
func (k *Lock) verdict(ctx context.Context, decided bool, until, now clock.Instant) error {
	r := &k.talk.acquire
	won := decided && r.won()
	switch {
	case ctx.Err() != nil:
		last := r.lossError()
		if won {
			last.Reason = ErrTooLate
		}
		return &waitError{op: "acquire", names: k.names, cause: context.Cause(ctx), last: last}
	case k.l.isClosed():
		return ErrClosed
	case !won:
		return r.lossError()
	case k.tooShort(until.Sub(now)):
		return r.fail(ErrTooLate)
	}
	return nil
}
