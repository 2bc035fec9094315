package redlocktest

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
	"github.com/quorumlock/go-redlock/redlock"
)

// OtherOwner is the owner (redlock.WithOwner) of what others hold.
const OtherOwner = "another"

// HoldElsewhere takes a lock as another process would, for d (whole milliseconds, from 10 ms to 365 days) unless it is released before.
// Waiters are told of the release, which may be called more than once. HoldElsewhere ends the test if the name is held, or if no
// quorum is up.
func (q *Quorum) HoldElsewhere(name string, d time.Duration) (release func()) {
	q.t.Helper()
	k, err := q.other(d).TryAcquire(context.Background(), name, d)
	if err != nil {
		q.t.Fatalf("redlocktest: HoldElsewhere(%q): %v", name, err)
		return func() {}
	}
	return func() { _ = k.Release(context.Background()) } // a lock that is over by now is what was asked for
}

// StealLock gives a name to another owner on every master. It acts as if the holder's keys had been deleted, or had expired early
// because the masters' clocks were set, and another client had been quick. The holder is not told. It finds out by its next
// extension or Check, or when its validity is over. Until then two clients believe that they hold the lock, which is what
// fencing tokens are for. It lasts for d, as with [Quorum.HoldElsewhere], unless it is released before. To end a holder's lock at
// once, see [Quorum.ExpireNow].
func (q *Quorum) StealLock(name string, d time.Duration) (release func()) {
	q.t.Helper()
	claim := redlock.Claim{Names: []string{name}, Token: wire.NewToken(OtherOwner), TTL: d}
	for _, m := range q.masters {
		m.Set(name, claim.Token, d)
	}
	k, err := q.other(d).Resume(context.Background(), claim)
	if err != nil {
		q.t.Fatalf("redlocktest: StealLock(%q): %v", name, err)
		return func() {}
	}
	return func() { _ = k.Release(context.Background()) }
}

// DeleteKey deletes a lock's keys on every master, as FLUSHALL would: it is free for others while its holder believes in it. See StealLock.
func (q *Quorum) DeleteKey(name string) {
	for _, m := range q.masters {
		m.Del(name)
	}
}

// Holder tells whether anybody holds a name, by a quorum of the masters' keys, and the owner's label. It looks past connections and
// faults. After a Release has returned, it is free.
func (q *Quorum) Holder(name string) (owner string, held bool) {
	votes := map[string]int{}
	for _, m := range q.masters {
		if v, ok := m.Get(name); ok {
			votes[v]++
		}
	}
	for token, n := range votes {
		if n >= q.majority() {
			return wire.Owner(token), true
		}
	}
	return "", false
}

// other is a Locker for a lock of d that somebody else holds. It is patient, so that a busy machine fails nobody's test.
func (q *Quorum) other(d time.Duration) *redlock.Locker {
	q.t.Helper()
	return q.Locker(redlock.WithOwner(OtherOwner), redlock.WithNodeTimeout(max(d/2, time.Millisecond)), redlock.WithMaxTTL(longest))
}

// longest is as long as redlock.WithMaxTTL allows.
const longest = 365 * 24 * time.Hour

func (q *Quorum) majority() int { return len(q.masters)/2 + 1 }
