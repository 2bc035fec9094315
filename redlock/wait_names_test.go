package redlock

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

// docs/dev/hazards.md H110: 32 contenders use random pairs of 8 names, in one process and in four.
// None waits without end, and all finish in the time of the longest queue.
func TestOverlappingPairsMakeProgress(t *testing.T) {
	t.Parallel()
	for seed, processes := range map[uint64]int{0: 1, 1: 4} {
		t.Run(fmt.Sprint(processes, " processes, seed ", seed), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				var lockers []*Locker
				for range processes {
					lockers = append(lockers, fl.process().locker())
				}
				fl.each(func(m *fakeredis.Master) { m.SetDelay(time.Millisecond) })
				var h history
				began := time.Now()
				for err := range together(32, func(i int) error {
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					for range 3 {
						p := random.Perm(8)[:2]
						names := []string{fmt.Sprint("n", p[0]), fmt.Sprint("n", p[1])}
						k, err := lockers[i%processes].AcquireAll(bg, names, time.Hour)
						if err != nil {
							return err
						}
						one, two := h.begin(names[0], k), h.begin(names[1], k)
						time.Sleep(2 * time.Millisecond)
						h.end(one)
						h.end(two)
						if err := k.Release(bg); err != nil {
							return err
						}
					}
					return nil
				}) {
					require.NoError(fl.t, err)
				}
				fl.t.Log(time.Since(began))
				require.Less(fl.t, time.Since(began), 10*time.Second)
				require.NoError(fl.t, h.overlap())
				fl.answered()
				require.Empty(fl.t, fl.left())
			})
		})
	}
}

// AcquireAll is woken by any of its names. If a handoff leaves some of the names free, they are
// announced to waiters elsewhere.
func TestSeveralNamesAreWaitedForAndReleasedTogether(t *testing.T) {
	late.LeaveOut(t, "it measures how soon they are acquired")
	t.Parallel()
	cases := map[string]struct {
		held   []string   // by one lock of the first Locker
		local  []string   // wanted by the first Locker
		remote [][]string // wanted by the second Locker
		soon   []bool     // which of those must be acquired soon after the release
	}{
		"any of its names":                   {held: []string{"b"}, remote: [][]string{{"a", "b", "c"}}, soon: []bool{true}},
		"a part is handed over":              {held: []string{"a", "b"}, local: []string{"a"}, remote: [][]string{{"b"}}, soon: []bool{true}},
		"the next one is short of another":   {held: []string{"a"}, local: []string{"a", "z"}, remote: [][]string{{"a"}}, soon: []bool{true}},
		"all is handed over":                 {held: []string{"a", "b"}, local: []string{"a", "b"}, remote: [][]string{{"a"}, {"b"}}, soon: []bool{false, false}},
		"both are free for others elsewhere": {held: []string{"a", "b"}, remote: [][]string{{"a"}, {"b"}}, soon: []bool{true, true}},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				a, b := fl.process().locker(), fl.process().locker(longBackoff)
				k, err := a.AcquireAll(bg, c.held, time.Hour)
				require.NoError(fl.t, err)
				fl.each(func(m *fakeredis.Master) { m.Set("z", "x", time.Hour) })
				if c.local != nil {
					waitingFor(bg, a, c.local...)
				}
				var all []<-chan won
				for _, names := range c.remote {
					all = append(all, waitingFor(bg, b, names...))
				}
				require.NoError(fl.t, k.Release(bg))
				pass(20 * time.Millisecond)
				for i, done := range all {
					require.Equal(fl.t, c.soon[i], len(done) == 1, "%v", c.remote[i])
				}
			})
		})
	}
}
