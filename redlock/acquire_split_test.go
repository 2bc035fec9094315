package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// H10, H80: three contenders have one master each. All get the lock soon, one after the other,
// because each undoes its part at once and tries again at a random time. The TTL is an hour: a key
// that is left would block them.
func TestContendersThatSplitTheVotesMakeProgress(t *testing.T) {
	t.Parallel()
	for round := range 6 {
		inBubble(t, 3, func(fl *testbed) {
			var lockers []*Locker
			for range 3 {
				lockers = append(lockers, fl.process().locker())
			}
			// Contender i reaches only master i …
			for i, m := range fl.masters {
				m.SetDelay(time.Millisecond)
				for j, c := range m.Clients() {
					if j != i {
						c.HoldRequests()
					}
				}
			}
			var done [3]time.Duration
			var all sync.WaitGroup
			began := time.Now()
			for i, l := range lockers {
				all.Go(func() {
					if k, err := l.Acquire(bg, "a", time.Hour); err == nil {
						done[i] = time.Since(began)
						time.Sleep(5 * time.Millisecond)
						_ = k.Release(bg)
					}
				})
			}
			synctest.Wait()
			var holders []string
			for _, m := range fl.masters {
				token, _ := m.Get("a")
				require.NotContains(t, holders, token, "the votes are not split")
				holders = append(holders, token)
			}
			// … until each master has a key.
			fl.each(func(m *fakeredis.Master) {
				for _, c := range m.Clients() {
					c.Release()
				}
			})
			all.Wait()
			slices.Sort(done[:])
			require.Positive(t, done[0])
			require.Less(t, done[0], 200*time.Millisecond, "round %d", round)
			require.Less(t, done[2], time.Second, "round %d", round)
			fl.answered()
			require.Empty(t, fl.left())
		})
	}
}

// H110: contenders for overlapping sets of names, in one process and in several. All make progress,
// and no name has two holders.
func TestOverlappingSetsOfNamesMakeProgress(t *testing.T) {
	t.Parallel()
	for seed, processes := range map[uint64]int{0: 1, 1: 4} {
		t.Run(fmt.Sprint(processes, " processes, seed ", seed), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				var lockers []*Locker
				for range processes {
					lockers = append(lockers, fl.process().locker())
				}
				var h history
				ctx, cancel := context.WithTimeout(bg, time.Minute)
				defer cancel()
				for err := range together(32, func(i int) error {
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					return h.takeSets(ctx, lockers[i%processes], random)
				}) {
					require.NoError(fl.t, err, "seed %d", seed)
				}
				require.NoError(fl.t, h.overlap(), "seed %d", seed)
				fl.answered()
				require.Empty(fl.t, fl.left())
			})
		})
	}
}

// takeSets acquires random sets of 1 to 4 of 8 names, in random order, a few times.
func (h *history) takeSets(ctx context.Context, l *Locker, random *rand.Rand) error {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for range 2 {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		set := names[:1+random.IntN(4)]
		k, err := l.AcquireAll(ctx, set, 10*time.Second)
		if err != nil {
			return err
		}
		var spans []*span
		for _, name := range set {
			spans = append(spans, h.begin(name, k))
		}
		time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
		for _, s := range spans {
			h.end(s)
		}
		if err := k.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Each master grants several names together or not at all. If one of them is held, none is changed.
func TestSeveralNamesAreAcquiredOnEachNodeAsAWhole(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithKeyPrefix("p:"))
		fl.masters[0].Set("p:b", "x", time.Minute)
		given := []string{"c", "a", "b"}
		k, err := l.AcquireAll(bg, given, time.Minute)
		require.NoError(t, err)
		fl.answered()
		require.Equal(t, []string{"a", "b", "c"}, k.Names())
		require.Equal(t, []string{"c", "a", "b"}, given, "the caller's slice was sorted")
		require.Equal(t, []string{"p:b"}, fl.masters[0].Keys())
		require.Equal(t, []string{"p:a", "p:b", "p:c"}, fl.masters[1].Keys())
		_, err = fl.process().locker(WithKeyPrefix("p:")).TryAcquireAll(bg, []string{"c", "d"}, time.Minute)
		matches(t, err, ErrHeld)
		require.ErrorContains(t, err, `acquire ["c" "d"]`)
		fl.answered()
		require.NotContains(t, fl.left(), "p:d")
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Equal(t, []string{"p:b"}, fl.left())
	})
}
