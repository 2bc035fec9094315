package redlock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// Otherwise Remaining could return 0 to one goroutine, and more than that to the same goroutine later.
func TestAnExtensionTakesEffectAtATimeThatNoGoroutineHasSeenPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _, c := gated(t)
		k := take(t, l, "a", 10*time.Second)
		c.gate(3) // after those of Extend
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(bg, 10*time.Second) }()
		<-c.reached
		free := k.mu.TryLock()
		if free {
			k.mu.Unlock()
		}
		close(c.open)
		require.NoError(t, <-extended)
		require.False(t, free, "another goroutine can see a later time")
		require.NoError(t, k.Release(bg))
	})
}

// Otherwise a lock that its caller believes to have ended by WithMaxHold would block its names on the nodes
// for another TTL.
func TestAnExtensionIsNotSentAfterTheMaximumHold(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed()
		k := takeAll(t, l, names, 10*time.Second, WithMaxHold(2*time.Second))
		p.within(command.Extend, sync.OnceFunc(func() { fl.clock.Jump(2 * time.Second) }))
		require.ErrorIs(t, k.Extend(bg, 10*time.Second), ErrMaxHold)
		fl.answered()
		require.Len(t, p.of(command.Extend), 3, "submitted, and")
		require.Zero(t, fl.sees("extend"))
	})
}

// Otherwise distant nodes would have less time for each extension.
func TestTheNextExtensionIsDueAnIntervalAfterTheStartOfTheLast(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed(WithNodeTimeout(time.Second))
		k := takeAll(t, l, names, 9*time.Second, WithAutoExtend())
		for _, m := range fl.masters {
			m.SetDelay(900 * time.Millisecond)
		}
		pass(2*k.lease.Terms.Interval + 100*time.Millisecond)
		sent := p.of(command.Extend)
		require.Len(t, sent, 6)
		require.Equal(t, k.lease.Terms.Interval, sent[3].at.Sub(sent[0].at))
		require.NoError(t, k.Release(bg))
	})
}
