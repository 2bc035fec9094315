package redlock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/dev/hazards.md H98: locks on sets of names are acquired one after the other, and every name
// must see increasing fences. One master is always down, so the masters' counters differ. The time
// does not move, so no hint helps.
func TestTheFencesOfEveryNameIncreaseOverSetsOfNames(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	for seed := range uint64(4) {
		inBubble(t, 3, func(fl *testbed) {
			random := rand.New(rand.NewPCG(seed, 98))
			l := fl.locker(WithFencing())
			last := map[string]int64{}
			for range 60 {
				out := fl.masters[random.IntN(3)]
				down(out)
				var set []string
				for _, i := range random.Perm(len(names))[:1+random.IntN(3)] {
					set = append(set, names[i])
				}
				k, err := l.TryAcquireAll(bg, set, time.Minute)
				require.NoError(t, err)
				for _, name := range set {
					require.Greater(t, k.Fence(), last[name], "seed %d: %s of %v", seed, name, set)
					last[name] = k.Fence()
				}
				fl.answered()
				require.NoError(t, k.Release(bg))
				fl.answered()
				up(out)
			}
		})
	}
}

// docs/dev/rules.md rule 13: the example that refutes one fence for each name.
func TestOneNumberForAllNamesIsWrittenToEveryCounter(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		most := fl.apart() // the counters of "a"
		down(fl.masters[2])
		k, err := l.TryAcquireAll(bg, []string{"b", "a", "c"}, time.Minute)
		require.NoError(t, err)
		fl.answered()
		require.Equal(t, most+1, k.Fence())
		for _, name := range []string{"a", "b", "c"} {
			for _, m := range fl.masters[:2] {
				require.Equal(t, most+1, counter(t, m, name), "%s on %s", name, m.Name())
			}
		}
		require.NoError(t, k.Release(bg))
		fl.answered()
		up(fl.masters[2])
		require.Equal(t, most+2, take(t, l, "b", time.Minute).Fence())
	})
}

func TestAConfirmationNeedsAllKeysOfANode(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		fl.apart()
		down(fl.masters[2])
		onConfirm(fl.masters[1], func(int64) { fl.masters[1].Del("b") })
		_, err := l.TryAcquireAll(bg, []string{"a", "b"}, time.Minute)
		require.ErrorIs(t, err, ErrTooLate)
		fl.answered()
		require.Zero(t, fl.keys("a")+fl.keys("b"))
	})
}
