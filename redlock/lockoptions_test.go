package redlock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

func TestDefaultsComeBeforeDoAndBeforeTheCall(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		holds := []LockOption{WithAutoExtend(), WithMaxHold(5 * time.Second)}
		l := fl.locker(WithDefaults(holds...), WithDefaults(nil, WithAsyncRelease()))
		held := func(opts ...LockOption) lockState {
			k := take(t, l, "a", 2*time.Second, opts...)
			defer func() { _ = k.Release(bg) }()
			return lockState{k.lease.Terms.AutoExtend, k.lease.Terms.MaxHold, k.opts.asyncRelease}
		}
		require.Equal(t, lockState{true, 5 * time.Second, true}, held())
		require.Equal(t, lockState{true, 9 * time.Second, true}, held(WithMaxHold(9*time.Second)))
		require.Equal(t, lockState{}, held(Without(append(holds, WithAsyncRelease())...)))
		require.Equal(t, lockState{maxHold: time.Second}, held(Without(holds...), Without(WithAsyncRelease()), WithMaxHold(time.Second)))
		require.NoError(t, l.Do(bg, "a", time.Second, func(_ context.Context, k *Lock) error {
			require.Equal(t, lockState{true, DefaultMaxTTL, false}, lockState{k.lease.Terms.AutoExtend, k.lease.Terms.MaxHold, k.opts.asyncRelease})
			return nil
		}, Without(WithMaxHold(time.Second), WithAsyncRelease())), "Do still extends")
	})
}

type lockState struct {
	autoExtend   bool
	maxHold      time.Duration
	asyncRelease bool
}

func TestADefaultWaitBoundsEveryAcquire(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		take(t, fl.process().locker(), "a", time.Minute)
		l := fl.locker(WithDefaults(WithWait(2 * time.Second)))
		_, err := l.Acquire(bg, "a", time.Second)
		requireWaited(t, err, ErrHeld)
		k, err := l.Acquire(bg, "a", time.Second, Without(WithWait(0)))
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

// Options that are not possible there would make every share and every Resume fail.
func TestDefaultsLeaveSharesAndResumeAlone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithDefaults(WithAutoExtend(), WithProgress(time.Minute), WithStopMargin(100*time.Millisecond), WithShared()))
		k := take(t, l, "a", 10*time.Second)
		share, err := l.Acquire(k.Context(), "a", time.Second)
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = l.Resume(bg, claim)
		require.NoError(t, err)
		require.True(t, k.lease.Terms.AutoExtend)
		claim, err = k.Detach()
		require.NoError(t, err)
		k, err = fl.locker(WithDefaults(WithMinHold(time.Second))).Resume(bg, claim)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		_, err = l.Resume(bg, claim, WithShared())
		require.ErrorIs(t, err, ErrInvalid)
	})
}

// Defaults that a share or Resume does not take are not checked against its TTL either.
func TestDefaultsThatDoNotApplyRefuseNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithDefaults(WithStopMargin(4*time.Second), WithShared()))
		k := take(t, l, "a", 10*time.Second)
		share, err := l.Acquire(k.Context(), "a", time.Second)
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		_, err = l.Acquire(k.Context(), "a", time.Second, WithStopMargin(4*time.Second))
		require.ErrorIs(t, err, ErrInvalid)
		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = fl.locker(WithDefaults(WithMinHold(time.Minute), WithMaxHold(20*time.Second))).Resume(bg, claim)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

// Each option that can be a default can be switched off for a call.
func TestAnOptionCanBeSwitchedOff(t *testing.T) {
	all := []LockOption{
		WithAutoExtend(), WithFailFast(), WithShared(), WithAsyncRelease(), WithWait(time.Second), WithMaxHold(time.Hour),
		WithMinHold(time.Second), WithProgress(time.Second), WithStopMargin(time.Second),
	}
	on := gather(all, nil).plain()
	for i := range all {
		off := gather(all, []LockOption{Without(all[i])}).plain()
		require.NotEqual(t, on, off, i)
		others := slices.Delete(slices.Clone(all), i, i+1)
		require.Equal(t, gather(others, nil).plain(), off, i)
		require.Equal(t, on, gather(all[i:i+1], append([]LockOption{Without(all[i])}, all...)).plain(), "and on again")
	}
	require.Equal(t, lockSettings{}, gather(all, []LockOption{Without(all...)}).plain())
	require.ErrorIs(t, gather(nil, []LockOption{Without(WithMinHold(0))}).err, ErrInvalid)
}

// plain returns the settings without what has no effect.
func (s lockSettings) plain() lockSettings {
	s.wait, s.ifExtended = 0, 0
	return s
}

// A process may have one bound for all work that is extended, and locks that are not.
func TestADefaultProgressIsForLocksThatAreExtended(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithDefaults(WithProgress(5 * time.Second)))
		k := take(t, l, "a", time.Minute)
		require.NoError(t, k.Release(bg))
		err := l.Do(bg, "a", time.Second, func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, ErrLost)
		_, err = l.Acquire(bg, "a", time.Minute, WithProgress(time.Second))
		require.ErrorIs(t, err, ErrInvalid)
	})
}

func TestAWrongDefaultIsAnErrorOfNew(t *testing.T) {
	_, err := newOver([]command.Voter{newFake("a")}, WithDefaults(WithMaxHold(-1), WithWait(-1)))
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "WithMaxHold(-1ns): at least 1ms; for seconds write 5 * time.Second; WithWait(-1ns): at least 1ms; ")
}
