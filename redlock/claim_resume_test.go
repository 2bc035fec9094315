package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/late"
)

// detached acquires a lock on "a" and detaches it.
func detached(t *testing.T, l *Locker, ttl time.Duration) Claim {
	t.Helper()
	claim, err := take(t, l, "a", ttl).Detach()
	require.NoError(t, err)
	return claim
}

func TestALockMovesFromOneProcessToAnother(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		a, b := fl.locker(WithOwner("a"), WithKeyPrefix("p:")), fl.locker(WithOwner("b"), WithKeyPrefix("p:"))
		k, err := a.AcquireAll(ctx, []string{"y", "x"}, 10*time.Second)
		require.NoError(t, err)
		work := k.Context()
		claim, err := k.Detach()
		require.NoError(t, err)
		require.Equal(t, Claim{Names: []string{"x", "y"}, Token: k.Token(), TTL: 10 * time.Second}, claim)
		require.ErrorIs(t, context.Cause(work), ErrDetached)
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		for _, err := range []error{k.Release(ctx), k.Extend(ctx, time.Second), k.Check(ctx)} {
			require.ErrorIs(t, err, ErrDetached)
		}
		_, err = k.Detach()
		require.ErrorIs(t, err, ErrDetached)
		synctest.Wait()
		require.Zero(t, fl.orders(command.Release, command.Extend, command.Inspect))
		require.Empty(t, a.registry.locks)
		require.NoError(t, a.Close(ctx), "nothing is held here any more")

		text, err := claim.MarshalText()
		require.NoError(t, err)
		var got Claim
		require.NoError(t, got.UnmarshalText(text))
		pass(4 * time.Second)
		k, err = b.Resume(context.WithValue(ctx, key("user"), "me"), got)
		require.NoError(t, err)
		require.Equal(t, claim.Token, k.Token())
		require.Equal(t, claim.Names, k.Names())
		require.Equal(t, "me", k.Context().Value(key("user")))
		require.InDelta(t, worth(6*time.Second)-time.Millisecond, k.Remaining(), float64(2*lateness()), "PTTL, less the margins and a millisecond")
		require.NoError(t, k.Release(ctx))
		fl.answered()
		for _, m := range fl.masters {
			require.Empty(t, m.Keys())
		}
	})
}

// The nodes answer in their order, 10 ms apart.
func TestAResumedLockCountsTheQuorumsTTLs(t *testing.T) {
	late.LeaveOut(t, "the order of all answers decides")
	const s = time.Second
	for name, test := range map[string]struct {
		ttl  [3]time.Duration // 0: no key; negative: a key that never expires
		want time.Duration    // the TTL from which the validity is counted
		err  error
	}{
		"the second largest":        {[3]time.Duration{8 * s, 5 * s, 2 * s}, 5 * s, nil},
		"of the first quorum":       {[3]time.Duration{2 * s, 8 * s, 5 * s}, 2 * s, nil},
		"two of three":              {[3]time.Duration{0, 8 * s, 5 * s}, 5 * s, nil},
		"one without expiry":        {[3]time.Duration{-1, 8 * s, 5 * s}, 5 * s, nil},
		"one with next to nothing":  {[3]time.Duration{s / 2, 8 * s, 5 * s}, 5 * s, nil},
		"more than the longest TTL": {[3]time.Duration{48 * time.Hour, 72 * time.Hour, 5 * s}, 24 * time.Hour, nil},
		"one of three":              {[3]time.Duration{0, 8 * s, 0}, 0, ErrLost},
		"none":                      {[3]time.Duration{0, 0, 0}, 0, ErrLost},
		"two without expiry":        {[3]time.Duration{-1, -1, 5 * s}, 0, ErrLost},
		"too late on two":           {[3]time.Duration{s, s / 2, 5 * s}, 0, ErrTooLate},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				ctx := context.Background()
				claim := detached(t, fl.locker(), 10*time.Second)
				b := fl.locker()
				for i, m := range fl.masters {
					m.Del("a")
					if test.ttl[i] != 0 {
						m.Set("a", claim.Token, max(0, test.ttl[i]))
					}
					m.SetDelay(time.Duration(i) * 10 * time.Millisecond)
				}
				before, began := fl.keys("a"), fl.clock.Now()
				k, err := b.Resume(ctx, claim, WithStopMargin(time.Second))
				if test.err != nil {
					require.ErrorIs(t, err, test.err)
					require.ErrorContains(t, err, `: resume "a": `)
					require.Nil(t, k)
					require.Empty(t, b.registry.locks)
					require.Equal(t, before, fl.keys("a"), "with an error nothing is changed")
					require.Zero(t, fl.orders(command.Release, command.Extend))
					return
				}
				require.NoError(t, err)
				took := fl.clock.Now().Sub(began)
				require.Equal(t, worth(test.want)-time.Millisecond, k.Remaining()+took, "less the margins and a millisecond")
				require.NoError(t, k.Release(ctx))
			})
		})
	}
}

func TestAResumeThatFailsCanBeTriedAgain(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		claim := detached(t, fl.locker(), 10*time.Second)
		b := fl.locker()
		fl.masters[0].Freeze()
		fl.masters[1].Freeze()
		_, err := b.Resume(ctx, claim)
		require.ErrorIs(t, err, ErrNoQuorum)
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, err = b.Resume(short, claim)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `redlock: resume "a": `)
		_, err = b.Resume(short, claim)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fl.masters[0].Unfreeze()
		k, err := b.Resume(ctx, claim)
		require.NoError(t, err, "two of three")
		fl.masters[1].Unfreeze()
		require.NoError(t, k.Release(ctx))
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

func TestAResumedLockExtendsItselfInTimeAndIsReleasedEverywhere(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		claim := detached(t, fl.locker(), 30*time.Second)
		pass(28 * time.Second) // less is left than the usual time until an extension
		k, err := fl.locker().Resume(ctx, claim, WithAutoExtend(), WithMaxHold(time.Minute))
		require.NoError(t, err)
		pass(20 * time.Second)
		require.NoError(t, k.Context().Err())
		require.Greater(t, k.Remaining(), 19*time.Second)
		for _, m := range fl.masters {
			require.Greater(t, m.TTL("a"), 19*time.Second)
		}
		pass(40*time.Second - 1)
		require.NoError(t, k.Context().Err(), "the maximum counts from the Resume")
		pass(1)
		require.ErrorIs(t, context.Cause(k.Context()), ErrMaxHold)
		fl.releasedEverywhere("a")
	})
}

// The earlier handle had extended the lock far beyond its TTL. A node that is down at the release
// must be tried for that long.
func TestTheReleaseOfAResumedLockIsKeptForAsLongAsItsKeysLive(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		require.NoError(t, k.Extend(ctx, 10*time.Minute))
		fl.answered()
		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = fl.locker().Resume(ctx, claim)
		require.NoError(t, err)
		fl.masters[2].Stop()
		require.NoError(t, k.Release(ctx))
		pass(time.Minute)
		require.NoError(t, fl.masters[2].Restart(true))
		require.Equal(t, 1, fl.keys("a"))
		pass(time.Second)
		require.Zero(t, fl.keys("a"))
	})
}

func TestResumeRefusesWhatIsNoClaim(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker(WithMaxTTL(time.Minute))
		good := detached(t, l, 10*time.Second)
		for name, spoil := range map[string]func(c *Claim){
			"empty":        func(c *Claim) { *c = Claim{} },
			"no names":     func(c *Claim) { c.Names = nil },
			"empty name":   func(c *Claim) { c.Names = []string{""} },
			"name twice":   func(c *Claim) { c.Names = []string{"a", "a"} },
			"reserved":     func(c *Claim) { c.Names = []string{"redlock:x"} },
			"no token":     func(c *Claim) { c.Token = "" },
			"no TTL":       func(c *Claim) { c.TTL = 0 },
			"negative TTL": func(c *Claim) { c.TTL = -time.Second },
			"TTL too long": func(c *Claim) { c.TTL = time.Hour },
		} {
			c := good
			spoil(&c)
			_, err := l.Resume(ctx, c)
			require.ErrorIs(t, err, ErrInvalid, name)
		}
		for _, opt := range []LockOption{WithMinHold(time.Second), WithShared(), WithMaxHold(-1)} {
			_, err := l.Resume(ctx, good, opt)
			require.ErrorIs(t, err, ErrInvalid)
		}
		done, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("enough"))
		_, err := l.Resume(done, good)
		require.ErrorContains(t, err, "enough")
		require.Zero(t, fl.orders(command.Inspect), "nothing was sent")
		foreign := good
		foreign.Token = command.NewToken("another")
		_, err = l.Resume(ctx, foreign)
		require.ErrorIs(t, err, ErrLost)
		require.NotContains(t, err.Error(), good.Token)
		k, err := l.Resume(ctx, good)
		require.NoError(t, err, "the good one was good")
		require.NoError(t, k.Release(ctx))
		require.NoError(t, l.Close(ctx))
		_, err = l.Resume(ctx, good)
		require.ErrorIs(t, err, ErrClosed)
	})
}
