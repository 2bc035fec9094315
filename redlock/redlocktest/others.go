package redlocktest

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/redlock"
)

// OtherOwner is the owner (redlock.WithOwner) of locks that the Quorum itself holds.
const OtherOwner = "another"

// HoldElsewhere holds a lock as another process would, for d or until release is called. d is in
// whole milliseconds, from 10 ms to 365 days. Waiters receive the announcement of the release.
// release may be called more than once. HoldElsewhere ends the test if the name is held or no
// quorum is up, and under the restart guard, which the other owner has not.
func (q *Quorum) HoldElsewhere(name string, d time.Duration) (release func()) {
	q.t.Helper()
	k, err := q.other(d).TryAcquire(context.Background(), name, d)
	if err != nil {
		q.t.Fatalf("redlocktest: HoldElsewhere(%q): %v", name, err)
		return func() {}
	}
	return func() { _ = k.Release(context.Background()) } // the lock may be over already
}

// StealLock gives a name to another owner on every server, even if it is held. This happens in
// production if keys were deleted, or expired early because the servers' clocks were set. The
// holder notices it by its next extension or Check, or when its validity ends. Until then two
// clients hold the lock, which is what fencing tokens protect from. The lock lasts for d, as in
// [Quorum.HoldElsewhere], or until release is called. To end a holder's lock at once, see
// [Quorum.ExpireNow].
func (q *Quorum) StealLock(name string, d time.Duration) (release func()) {
	q.t.Helper()
	claim := redlock.Claim{Names: []string{name}, Token: command.NewToken(OtherOwner), TTL: d}
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

// DeleteKey deletes a lock's keys on every server, like FLUSHALL. Other clients can then acquire
// the name while its holder still considers it held. See [Quorum.StealLock].
func (q *Quorum) DeleteKey(name string) {
	for _, m := range q.masters {
		m.Del(name)
	}
}

// Holder returns the owner's label of a name and whether it is held, by a quorum of the servers'
// keys. It reads the servers directly, regardless of connections and faults. After Release has
// returned the name is free.
func (q *Quorum) Holder(name string) (owner string, held bool) {
	votes := map[string]int{}
	for _, m := range q.masters {
		if v, ok := m.Get(name); ok {
			votes[v]++
		}
	}
	for token, n := range votes {
		if n >= q.majority() {
			return command.Owner(token), true
		}
	}
	return "", false
}

// other makes a Locker for a lock of d that another owner holds. Its node timeout is long, so that
// no test fails on a busy machine, and bounded for a test whose servers are frozen.
func (q *Quorum) other(d time.Duration) *redlock.Locker {
	q.t.Helper()
	timeout := min(max(d/2, time.Millisecond), 10*time.Second)
	return q.Locker(redlock.WithOwner(OtherOwner), redlock.WithNodeTimeout(timeout), redlock.WithMaxTTL(longest))
}

// longest is the upper bound of redlock.WithMaxTTL.
const longest = 365 * 24 * time.Hour

func (q *Quorum) majority() int { return len(q.masters)/2 + 1 }
