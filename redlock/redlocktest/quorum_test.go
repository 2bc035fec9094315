package redlocktest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

const (
	name = "invoice/42"
	ttl  = time.Minute
	long = time.Hour // nothing waits for so long
)

// patient is for tests in real time: a busy machine answers late.
var patient = redlock.WithNodeTimeout(ttl / 3)

// everywhere runs a test in a bubble and outside of one: what the kit promises holds in both.
func everywhere(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run("in a bubble", func(t *testing.T) { synctest.Test(t, f) })
	t.Run("in real time", f)
}

// lost waits for the end of a lock's context.
func lost(t *testing.T, k *redlock.Lock) {
	t.Helper()
	<-k.Context().Done()
	require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLost)
}

func take(t *testing.T, l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	k, err := l.Acquire(t.Context(), name, ttl, opts...)
	require.NoError(t, err)
	return k
}

func TestALockerWorksOnEveryNumberOfMasters(t *testing.T) {
	for n := 1; n <= 9; n++ {
		everywhere(t, func(t *testing.T) {
			q := redlocktest.New(t, n)
			k := take(t, q.Locker(patient, redlock.WithOwner("me")))
			owner, held := q.Holder(name)
			require.True(t, held)
			require.Equal(t, "me", owner)
			require.NoError(t, k.Release(t.Context()))
			_, held = q.Holder(name)
			require.False(t, held)
		})
	}
}

func TestLockersExcludeEachOtherAsProcessesDo(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		take(t, q.Locker(patient, redlock.WithOwner("first")))
		_, err := q.Locker(patient).TryAcquire(t.Context(), name, ttl)
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "first", held.Owner)
	})
}

func TestAProgramMayMakeItsOwnLocker(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		l, err := redlock.New(q.Nodes(), patient, redlock.WithClock(q.Clock()))
		require.NoError(t, err)
		k := take(t, l)
		q.ExpireNow(name)
		lost(t, k)
		require.NoError(t, l.Close(t.Context()))
	})
}

func TestFencesGuardAndRepairWorkAsOnServers(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		l := q.Locker(patient, redlock.WithFencing(), redlock.WithRestartGuard(ttl))
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrQuarantined, "new masters wait once")
		q.Advance(ttl)
		first := take(t, l)
		require.NoError(t, first.Release(t.Context()))
		second := take(t, l)
		require.Greater(t, second.Fence(), first.Fence())

		q.RestartEmpty(0, 1)
		_, err = l.TryAcquire(t.Context(), "another name", ttl)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
	})
}

// Otherwise it would be waited for until somebody looked again.
func TestAQuarantineThatIsOverIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		l := q.Locker(patient, redlock.WithRestartGuard(ttl))
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrQuarantined, "new masters wait once")
		began := time.Now()
		q.Advance(ttl)
		take(t, l)
		require.Less(t, time.Since(began), 5*time.Second)
	})
}

// A kit must not hide what a test forgets.
func TestWhatCannotBeDoneEndsTheTest(t *testing.T) {
	for what, do := range map[string]func(q *redlocktest.Quorum){
		"no master 3":         func(q *redlocktest.Quorum) { q.Stop(3) },
		"no master -1":        func(q *redlocktest.Quorum) { q.Freeze(-1) },
		"no such name":        func(q *redlocktest.Quorum) { q.ExpireNow("nobody's") },
		"time goes back":      func(q *redlocktest.Quorum) { q.Advance(-1) },
		"already held":        func(q *redlocktest.Quorum) { q.HoldElsewhere(name, ttl); q.HoldElsewhere(name, ttl) },
		"a reserved name":     func(q *redlocktest.Quorum) { q.StealLock("redlock:guard", ttl) },
		"an option that errs": func(q *redlocktest.Quorum) { q.Locker(redlock.WithOwner("a:b")) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				probe := &probe{T: t}
				defer func() { require.NotNil(t, recover(), "the test goes on") }()
				do(redlocktest.New(probe, 3))
			})
		})
	}
	probe := &probe{T: t}
	require.Panics(t, func() { redlocktest.New(probe, 0) })
	require.Panics(t, func() { redlocktest.New(probe, 10) })
}

// probe is a test whose end can be seen.
type probe struct{ *testing.T }

func (p *probe) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
