package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// H44: on a quorum the lock's key holds a value that is not a lock, so waiting would never end.
// Acquire fails at once, as TryAcquire does, and reports it.
func TestAForeignKeyFailsAnAcquireAtOnce(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // the others decide
		l := fl.locker()
		for _, m := range fl.masters[1:] {
			m.PushList("a")
		}
		for name, acquire := range map[string]func() (*Lock, error){
			"Acquire":       func() (*Lock, error) { return l.Acquire(bg, "a", time.Minute) },
			"TryAcquire":    func() (*Lock, error) { return l.TryAcquire(bg, "a", time.Minute) },
			"AcquireAll":    func() (*Lock, error) { return l.AcquireAll(bg, []string{"b", "a"}, time.Minute) },
			"TryAcquireAll": func() (*Lock, error) { return l.TryAcquireAll(bg, []string{"a", "b"}, time.Minute) },
		} {
			var err error
			require.Zero(t, elapsed(func() { _, err = acquire() }), name)
			matches(t, err, ErrForeignKey)
			require.ErrorContains(t, err, "redlock: the key holds a value that is not a lock: acquire ")
			require.ErrorContains(t, err, "n2: refused: the key holds a value that is not a lock")
			require.ErrorContains(t, err, "n3: refused: the key holds a value that is not a lock")
		}
		time.Sleep(time.Second)
		require.Equal(t, []string{"a"}, fl.left()) // the lists remain
		require.Empty(t, fl.masters[0].Keys())
	})
}

// H44: the same beside a name that is held. Otherwise Acquire would wait for as long as its holder
// extends the lock.
func TestAForeignKeyFailsAnAcquireAlsoBesideANameThatIsHeld(t *testing.T) {
	for _, foreign := range []string{"a", "c"} { // nodes see the names in alphabetical order
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) {
				m.PushList(foreign)
				m.Set("b", "x", time.Hour)
			})
			l, names := fl.locker(), []string{"b", foreign}
			_, err := l.TryAcquireAll(bg, names, time.Minute)
			matches(t, err, ErrForeignKey)
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			defer cancel()
			require.Zero(t, elapsed(func() { _, err = l.AcquireAll(ctx, names, time.Minute) }), foreign)
			matches(t, err, ErrForeignKey)
		})
	}
}

// H44: the same while a server is down, when the first refusal decides.
func TestAForeignKeyFailsAnAcquireAlsoWhileAMasterIsDown(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		for _, m := range fl.masters[1:] {
			m.PushList("a")
		}
		fl.masters[0].Stop()
		fl.masters[2].SetDelay(time.Millisecond)
		time.Sleep(time.Second) // a dial has failed
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		_, err := l.Acquire(ctx, "a", time.Minute)
		matches(t, err, ErrForeignKey)
	})
}

// H44: a foreign key on a minority does not keep a quorum from granting.
func TestAForeignKeyOnAMinorityIsNoHindrance(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // the others decide
		l := fl.locker()
		fl.masters[0].PushList("a")
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Extend(bg, time.Minute))
		require.NoError(t, k.Check(bg))
		require.NoError(t, k.Release(bg))
	})
}

// H44: with one foreign key and one holder Acquire waits, because the holder will release.
func TestAForeignKeyBesideAHolderIsWaitedOut(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.masters[0].PushList("a")
		fl.masters[1].Set("a", "x", time.Second)
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

// H44: a string without an expiry may be a lock that was never released. It is reported as a holder
// and waited for.
func TestAStringWithoutAnExpiryIsWaitedFor(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", 0) })
		err := tried(l)
		matches(t, err, ErrHeld)
		require.ErrorContains(t, err, "refused: held without an expiry")
		time.AfterFunc(3*time.Second, func() { fl.each(func(m *fakeredis.Master) { m.Del("a") }) })
		took := elapsed(func() { _, err = l.Acquire(bg, "a", time.Minute) })
		require.NoError(t, err)
		require.InDelta(t, 3.5, took.Seconds(), 0.55, "it may be deleted without a word: polls find it within a second")
	})
}

// H44: a waiting Acquire also notices that the keys of a quorum have become foreign.
func TestAKeyThatBecomesForeignEndsTheWaiting(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", 10*time.Second) })
		time.AfterFunc(1500*time.Microsecond, func() { fl.each(func(m *fakeredis.Master) { m.PushList("a") }) })
		var err error
		took := elapsed(func() { _, err = l.Acquire(bg, "a", time.Minute) })
		matches(t, err, ErrForeignKey)
		require.Less(t, took, 2*time.Second)
	})
}

// H44: of two nodes one is enough to prevent a quorum. Otherwise Acquire would wait forever.
func TestAForeignKeyOnHalfOfTheNodesFailsAnAcquireAtOnce(t *testing.T) {
	inBubble(t, 2, func(fl *testbed) {
		fl.masters[1].PushList("a")
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		_, err := fl.locker().Acquire(ctx, "a", time.Minute)
		matches(t, err, ErrForeignKey)
	})
}
