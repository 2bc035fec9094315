package redlock

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// H7, H64: the clients' clocks run slow or fast within the drift allowance, and every client holds
// to the last instant. The holds must not overlap. The negative control is one client beyond the
// allowance: the oracle must report it.
func TestClockRatesWithinTheDriftAllowanceDoNotOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		holder, next float64
		overlap      bool
	}{
		{1, 1, false},
		{0.99, 1, false},
		{0.99, 1.01, false},
		{1.01, 0.99, false},
		{0.97, 1, true},
	} {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.process(), fl.process()
			holder, next := a.locker(eager), b.locker(eager)
			a.clock.SetRate(c.holder)
			b.clock.SetRate(c.next)
			var h history
			for range 3 {
				h.toItsEnd(t, holder)
				h.toItsEnd(t, next)
			}
			h.join()
			require.Equal(t, c.overlap, h.overlap() != nil, "rates %v and %v: %v", c.holder, c.next, h.overlap())
			require.Len(t, h.spans, 6)
		})
	}
}

var eager = withBackoff(time.Millisecond, 4*time.Millisecond)

// toItsEnd acquires a lock and, in the background, keeps it until its own clock reports its end. It
// returns shortly before that.
func (h *history) toItsEnd(t *testing.T, l *Locker) {
	t.Helper()
	k, err := l.Acquire(bg, "a", 10*time.Second)
	require.NoError(t, err)
	s := h.begin("a", k)
	h.open.Go(func() {
		<-k.Context().Done()
		h.end(s)
	})
	time.Sleep(9700 * time.Millisecond)
}

// H8: all times in commands are relative. Neither a node's clock nor the difference between two of
// them matters.
func TestOnlyRelativeTimesGoOverTheWire(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.forget()
		k, err := l.Acquire(bg, "a", 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, k.Extend(bg, 20*time.Second))
		require.NoError(t, k.Check(bg))
		require.NoError(t, k.Release(bg))
		k, err = l.AcquireAll(bg, []string{"b", "c"}, 10*time.Second, WithMinHold(15*time.Second))
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		_, err = l.Inspect(bg, "b")
		require.NoError(t, err)
		absolute := []string{"PXAT", "EXAT", "PEXPIREAT", "EXPIREAT", "TIME", "EXPIRETIME", "PEXPIRETIME"}
		var numbers []string
		fl.each(func(m *fakeredis.Master) {
			for _, e := range m.Log() {
				for _, word := range append([]string{e.Name}, e.Args...) {
					require.NotContains(t, absolute, strings.ToUpper(word))
					if strings.Trim(word, "0123456789") == "" {
						numbers = append(numbers, word)
					}
				}
				if e.Name == "SET" {
					require.Equal(t, []string{"a", e.Args[1], "NX", "PX", "10000"}, e.Args) // as in the Redis documentation
				}
			}
		})
		slices.Sort(numbers)
		// The numbers are counts of keys and of subscriptions, TTLs, and the bound of 24 h on TTLs.
		require.Equal(t, []string{"0", "1", "10000", "15000", "2", "20000", "86400000"}, slices.Compact(numbers))
	})
}
