package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/late"
)

func TestCheckIsNilForAHealthyLockAndChangesNothing(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		for range 9 {
			left := k.Remaining()
			require.NoError(t, k.Check(ctx))
			require.Equal(t, left, k.Remaining())
			synctest.Wait()
			pass(1000300 * time.Microsecond) // PTTL is cut to whole milliseconds
		}
		require.NoError(t, k.Extend(ctx, 20*time.Second))
		left := k.Remaining()
		require.NoError(t, k.Check(ctx))
		require.Equal(t, left, k.Remaining())
		require.NoError(t, k.Release(ctx))
	})
}

func TestCheckDoesNotWaitForAFrozenNode(t *testing.T) {
	late.LeaveOut(t, "each node is frozen in turn, and the others answer at once")
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		for _, m := range fl.masters {
			m.Freeze()
			left := k.Remaining()
			require.NoError(t, k.Check(ctx))
			require.Equal(t, left, k.Remaining(), "not even the time")
			m.Unfreeze()
			fl.answered()
		}
		require.NoError(t, k.Release(ctx))
	})
}

// docs/dev/hazards.md H52: two nodes' clocks jumped forward. The test shortens their keys by as
// much.
func TestCheckLowersTheEndToWhatAQuorumSupports(t *testing.T) {
	late.LeaveOut(t, "it requires the exact end that the answers of all nodes give")
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		work := k.Context()
		fl.masters[0].Set("a", k.Token(), 2*time.Second)
		require.NoError(t, k.Check(ctx))
		require.Greater(t, k.Remaining(), 9*time.Second, "one node is no quorum")
		fl.masters[2].Set("a", k.Token(), 5*time.Second)
		require.NoError(t, k.Check(ctx))
		fl.answered()
		require.Equal(t, 5*time.Second-58*time.Millisecond, k.Remaining(), "less the margins and a millisecond")
		fl.masters[0].Set("a", k.Token(), time.Hour)
		fl.masters[2].Set("a", k.Token(), time.Hour)
		require.NoError(t, k.Check(ctx))
		require.Equal(t, 5*time.Second-58*time.Millisecond, k.Remaining(), "it is never raised")
		pass(k.Remaining())
		require.ErrorIs(t, context.Cause(work), ErrLost)
	})
}

func TestCheckThatFindsNothingLeftEndsTheLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		fl.masters[0].Set("a", k.Token(), 2*time.Millisecond)
		fl.masters[1].Set("a", k.Token(), 3*time.Millisecond)
		require.ErrorIs(t, k.Check(context.Background()), ErrLost)
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
	})
}

// A lock that extends itself is extended in time after Check has lowered its end.
func TestALoweredEndBringsTheNextExtensionForward(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		for _, m := range fl.masters {
			m.Set("a", k.Token(), 3*time.Second)
		}
		require.NoError(t, k.Check(context.Background()))
		require.Less(t, k.Remaining(), 3*time.Second)
		pass(time.Second)
		require.Greater(t, k.Remaining(), 28*time.Second)
		require.NoError(t, k.Release(context.Background()))
	})
}

// docs/dev/hazards.md H52: an extension reached n2 and n3. n1 still has the older TTL and answers
// first.
func TestAStaleNodeThatAnswersFirstLowersNothing(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(0) // it is stale
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		pass(5 * time.Second)
		heal := failing(fl.masters[0])
		require.NoError(t, k.Extend(ctx, 20*time.Second))
		fl.answered()
		heal()
		fl.masters[1].SetDelay(20 * time.Millisecond)
		fl.masters[2].SetDelay(30 * time.Millisecond)
		left := k.Remaining()
		require.NoError(t, k.Check(ctx))
		require.Equal(t, left-30*time.Millisecond, k.Remaining(), "what it took to ask, and no more")
		require.NoError(t, k.Release(ctx))
	})
}

// The two nodes that disagree answer first.
func TestTwoStaleNodesOfFiveLowerNothing(t *testing.T) {
	inBubbles(t, 5, func(fl *testbed) {
		fl.lateAt(0) // it is stale
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		pass(5 * time.Second)
		heal := failing(fl.masters[0], fl.masters[1])
		require.NoError(t, k.Extend(ctx, 20*time.Second))
		fl.answered()
		heal()
		fl.masters[3].SetDelay(20 * time.Millisecond)
		fl.masters[4].SetDelay(20 * time.Millisecond)
		left := k.Remaining()
		require.NoError(t, k.Check(ctx))
		require.Equal(t, left-20*time.Millisecond, k.Remaining())
		require.NoError(t, k.Release(ctx))
	})
}

// docs/dev/hazards.md H63.
func TestCheckFindsThatAMajorityLostTheLock(t *testing.T) {
	for name, spoil := range map[string]func(fl *testbed, i int){
		"deleted":     func(fl *testbed, i int) { fl.masters[i].Del("a") },
		"another's":   func(fl *testbed, i int) { fl.masters[i].Set("a", "x", time.Minute) },
		"no lock":     func(fl *testbed, i int) { fl.masters[i].PushList("a") },
		"without TTL": func(fl *testbed, i int) { v, _ := fl.masters[i].Get("a"); fl.masters[i].Set("a", v, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, 3, func(fl *testbed) {
				ctx := context.Background()
				k := take(t, fl.locker(), "a", 10*time.Second)
				spoil(fl, 0)
				require.NoError(t, k.Check(ctx))
				spoil(fl, 1)
				require.ErrorIs(t, k.Check(ctx), ErrLost)
				require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
				fl.answered()
				_, found := fl.masters[2].Get("a")
				require.False(t, found, "undone, now that the handle has ended")
				require.ErrorIs(t, k.Check(ctx), ErrLost)
			})
		})
	}
}

func TestCheckWithoutAQuorumLeavesTheHandle(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		fl.masters[0].Del("a")
		fl.masters[1].Freeze()
		fl.masters[2].Freeze()
		left := k.Remaining()
		err := k.Check(ctx)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNodeTimeout)
		require.ErrorContains(t, err, `: check "a": 0 of 3 votes`)
		require.Equal(t, left-500*time.Millisecond, k.Remaining())
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		err = k.Check(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, `redlock: check "a": `)
		require.NoError(t, k.Context().Err())
		fl.masters[1].Unfreeze()
		fl.masters[2].Unfreeze()
		require.NoError(t, k.Check(ctx))
		require.NoError(t, k.Release(ctx))
	})
}
