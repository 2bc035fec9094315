package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// whereNoClientCan runs f while a waiter waits for a name that cannot be acquired. Of three masters
// the second holds a key, the third is free, and out changes the first.
func whereNoClientCan(t *testing.T, out func(fl *testbed, k *Lock), f func(fl *testbed, k *Lock, waiting <-chan won)) {
	t.Helper()
	late.LeaveOut(t, "each of the three masters decides an attempt, and it counts attempts or the time to the next one")
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.guarded(), "a", guardTTL)
		fl.masters[1].Set("a", "somebody's", 10*time.Minute)
		fl.masters[2].Del("a")
		out(fl, k)
		b := fl.process().locker(WithRestartGuard(guardTTL))
		waiting := make(chan won, 1)
		go func() {
			k, err := b.Acquire(bg, "a", time.Second)
			waiting <- won{k: k, err: err, at: time.Now()}
		}()
		pass(2 * time.Second)
		f(fl, k, waiting)
	})
}

func flushed(fl *testbed, _ *Lock) { fl.masters[0].FlushAll() }
func stopped(fl *testbed, _ *Lock) { fl.masters[0].Stop() }
func heldToo(fl *testbed, _ *Lock) { fl.masters[0].Set("a", "another's", time.Hour) }

// Each attempt gets one vote and one refusal, as if votes were split, for as long as that lasts.
// The waiter must not try twenty times a second.
func TestANameThatNoClientCanHaveIsPolledSeldom(t *testing.T) {
	t.Parallel()
	for what, out := range map[string]func(*testbed, *Lock){"quarantined": flushed, "stopped": stopped, "held for another": heldToo} {
		whereNoClientCan(t, out, func(fl *testbed, _ *Lock, _ <-chan won) {
			fl.forget()
			pass(6 * time.Second)
			require.LessOrEqual(t, fl.count("EVALSHA"), 12*9, "%s: two attempts a second, who it is, what was got, and the guard", what)
		})
	}
}

// An event that makes the name available is noticed as if a holder had released it.
func TestANameThatNoClientCouldHaveIsAcquiredWhenItIsFree(t *testing.T) {
	t.Parallel()
	const begun = 2 * time.Second // so long ago
	for what, c := range map[string]struct {
		out  func(fl *testbed, k *Lock)
		then func(fl *testbed, k *Lock) (in time.Duration) // when the name becomes available
		soon time.Duration
	}{
		"a release": {func(fl *testbed, k *Lock) {
			flushed(fl, k)
			fl.masters[1].Set("a", k.Token(), guardTTL)
		}, func(_ *testbed, k *Lock) time.Duration {
			go func() { _ = k.Release(bg) }()
			return 0
		}, waiting.AnnounceGrace},
		"a key's end": {heldToo, func(fl *testbed, _ *Lock) time.Duration {
			fl.masters[1].Set("a", "somebody's", 2*time.Second)
			return 2 * time.Second
		}, 2 * waiting.ExpiryMargin},
		"a quarantine's end": {flushed, func(*testbed, *Lock) time.Duration { return guardTTL - begun }, 2 * quarantineSlack},
		"a key that is deleted": {flushed, func(fl *testbed, _ *Lock) time.Duration {
			fl.masters[1].Del("a")
			return 0
		}, waiting.MaxPollPause},
		"a start": {stopped, func(fl *testbed, _ *Lock) time.Duration {
			require.NoError(fl.t, fl.masters[0].Restart(true))
			return guardTTL
		}, waiting.MaxPollPause},
	} {
		for range 3 { // a poll may come at the right time by chance
			whereNoClientCan(t, c.out, func(fl *testbed, k *Lock, waiting <-chan won) {
				began := time.Now()
				in := c.then(fl, k)
				w := gets(t, waiting)
				require.GreaterOrEqual(t, w.at.Sub(began), in, what)
				require.LessOrEqual(t, w.at.Sub(began), in+c.soon, what)
				require.NoError(t, w.k.Release(bg))
			})
		}
	}
}

// A key that exists no longer than an attempt may last is a vote that its contender undoes without
// an announcement. The waiter must keep trying.
func TestVotesThatAreUndoneAreNotTakenForAHold(t *testing.T) {
	const votes, long = 15, maxNodeTimeout - 100*time.Millisecond
	voting := func(fl *testbed, k *Lock) {
		flushed(fl, k)
		go func() {
			for i := range votes {
				fl.masters[1].Set("a", fmt.Sprint("another's ", i), time.Minute)
				time.Sleep(long)
			}
		}()
	}
	whereNoClientCan(t, voting, func(fl *testbed, _ *Lock, waiting <-chan won) {
		fl.forget()
		pass(votes*long - 2*time.Second)
		require.Greater(t, scripts(fl.masters[2], "acquire"), 40, "of 80 attempts in four seconds")
		freed := time.Now()
		fl.masters[1].Del("a")
		require.LessOrEqual(t, gets(t, waiting).at.Sub(freed), 100*time.Millisecond)
	})
}
