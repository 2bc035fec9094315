package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/dev/hazards.md H105, here and below.

// hooks is a Trace whose hooks all call f with their names.
func hooks(f func(hook string)) *Trace {
	return &Trace{
		Vote:     func(VoteEvent) { f("vote") },
		Attempt:  func(RoundEvent) { f("attempt") },
		Acquired: func(WaitEvent) { f("acquired") },
		Started:  func(HoldEvent) { f("started") },
		Extended: func(RoundEvent) { f("extended") },
		Ended:    func(HoldEvent) { f("ended") },
		Released: func(RoundEvent) { f("released") },
	}
}

// life runs a lock through all calls that call a hook.
func life(t *testing.T, l *Locker, name string) {
	t.Helper()
	ctx := context.Background()
	k, err := l.Acquire(ctx, name, 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, k.Extend(ctx, 10*time.Second))
	require.NoError(t, k.Release(ctx))
	k, err = l.Acquire(ctx, name, 10*time.Second)
	require.NoError(t, err)
	_, err = k.Detach()
	require.NoError(t, err)
}

func TestEveryHookMayCallBackIntoTheLibrary(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		var mu sync.Mutex
		var l *Locker
		other := map[string]*Lock{}
		called := map[string]error{}
		l = fl.locker(WithTrace(hooks(func(hook string) {
			mu.Lock()
			k := other[hook]
			delete(other, hook)
			mu.Unlock()
			if k == nil {
				return // else the votes on the Inspect below would call hooks without end
			}
			_, err := l.Inspect(ctx, "a")
			if err == nil {
				err = k.Release(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			called[hook] = err
		})))
		helper := fl.locker()
		for _, hook := range []string{"vote", "attempt", "started", "acquired", "extended", "ended", "released"} {
			k := take(t, helper, hook, time.Minute)
			claim, err := k.Detach()
			require.NoError(t, err)
			mine, err := l.Resume(ctx, claim)
			require.NoError(t, err)
			mu.Lock()
			other[hook] = mine
			mu.Unlock()
		}
		life(t, l, "a")
		pass(10 * time.Second) // the hooks run one after the other
		require.Len(t, called, 7)
		for hook, err := range called {
			require.NoError(t, err, hook)
			require.Zero(t, fl.keys(hook))
		}
	})
}

// Nothing waits for a hook: neither Acquire, Release, Detach or Close nor a node's reader.
func TestNothingWaitsForAHookThatBlocks(t *testing.T) {
	for _, blocked := range []string{"vote", "attempt", "started", "acquired", "extended", "ended", "released"} {
		t.Run(blocked, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				gate := make(chan struct{})
				hit := make(chan struct{}, 100)
				l := fl.locker(WithTrace(hooks(func(hook string) {
					if hook == blocked {
						hit <- struct{}{}
						<-gate
					}
				})))
				began := fl.clock.Now()
				life(t, l, "a")
				life(t, l, "b")
				require.Equal(t, began, fl.clock.Now())
				fl.answered()
				began = fl.clock.Now()
				require.NoError(t, l.Close(context.Background()))
				require.Equal(t, began, fl.clock.Now())
				synctest.Wait()
				require.Len(t, hit, 1)
				close(gate)
				synctest.Wait()
				require.Greater(t, len(hit), 1, "the rest came as soon as it could")
			})
		})
	}
}

func TestAHookThatPanicsIsReportedAndTheOthersContinue(t *testing.T) {
	for name, fail := range map[string]func(){
		"panics":             func() { panic("the hook is broken") },
		"panics with nil":    func() { panic(nil) }, //nolint:govet // what a hook may do
		"ends its goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			inBubble(t, 3, func(fl *testbed) {
				var mu sync.Mutex
				called := map[string]int{}
				l := fl.locker(WithLogger(log.logger()), WithTrace(hooks(func(hook string) {
					mu.Lock()
					called[hook]++
					mu.Unlock()
					fail()
				})))
				life(t, l, "a")
				fl.answered()
				require.Len(t, called, 7)
				require.Equal(t, 2, called["acquired"])
			})
			if name != "ends its goroutine" {
				require.NotEmpty(t, log.lines())
			}
			for _, line := range log.lines() {
				require.Contains(t, line, "redlock: a hook panicked")
			}
		})
	}
}

// brokenLog is a log that panics itself.
type brokenLog struct{ slog.Handler }

func (brokenLog) Enabled(context.Context, slog.Level) bool { return true }

func (brokenLog) Handle(context.Context, slog.Record) error { panic("no disk") }

func TestALoggerThatPanicsEndsNothing(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ended := 0
		trace := &Trace{Ended: func(HoldEvent) { ended++; panic("as well") }}
		l := fl.locker(WithLogger(slog.New(brokenLog{})), WithTrace(trace))
		k := take(t, l, "a", time.Second)
		pass(2 * time.Second)
		require.Error(t, k.Context().Err())
		require.Equal(t, 1, ended)
		life(t, l, "a")
		fl.answered()
		require.Equal(t, 3, ended)
	})
}

// A hold starts and ends once, however it was acquired, also one that another handle acquired.
func TestEveryHoldIsReportedFromItsStart(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var reported []string
		note := func(what string) func(HoldEvent) {
			return func(e HoldEvent) {
				reported = append(reported, fmt.Sprint(what, " ", e.Names, " ", e.Shared, " ", e.Cause))
			}
		}
		l := fl.locker(WithTrace(&Trace{Started: note("started"), Ended: note("ended")}))
		k, err := l.TryAcquire(bg, "a", 10*time.Second)
		require.NoError(t, err)
		share, err := l.TryAcquire(k.Context(), "a", time.Second, WithShared())
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = l.Resume(bg, claim)
		require.NoError(t, err)
		_, err = l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Equal(t, []string{
			"started [a] false <nil>", "started [a] true <nil>", "ended [a] true " + ErrReleased.Error(), "ended [a] false " + ErrDetached.Error(),
			"started [a] false <nil>", "ended [a] false " + ErrReleased.Error(),
		}, reported)
	})
}

func TestEventsOfALockAreReportedInOrder(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		var reported []string
		l := fl.locker(WithTrace(hooks(func(hook string) { reported = append(reported, hook) })))
		life(t, l, "a")
		fl.answered()
		require.Equal(t, []string{
			"vote", "attempt", "started", "acquired", "vote", "extended", "ended", "vote", "released",
			"vote", "attempt", "started", "acquired", "ended",
		}, reported)
	})
}

func TestAVoteBehindTheDecisionOrTheNodeTimeoutIsCalledLate(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it answers last
		late := map[string]bool{}
		l := fl.locker(WithTrace(&Trace{Vote: func(e VoteEvent) {
			if e.Op == "extend" {
				late[e.Vote.Node] = e.Late
			}
		}}))
		k := take(t, l, "a", 30*time.Second)
		fl.masters[1].SetDelay(10 * time.Millisecond)
		fl.masters[2].SetDelay(20 * time.Millisecond)
		require.NoError(t, k.Extend(context.Background(), 30*time.Second))
		pass(20*time.Millisecond + maxLate)
		require.Equal(t, map[string]bool{"n1": false, "n2": false, "n3": true}, late)
		fl.masters[1].SetDelay(600 * time.Millisecond)
		fl.masters[2].SetDelay(700 * time.Millisecond)
		require.ErrorIs(t, k.Extend(context.Background(), 30*time.Second), ErrNoQuorum)
		pass(2 * time.Second)
		require.Equal(t, map[string]bool{"n1": false, "n2": true, "n3": true}, late)
	})
}
