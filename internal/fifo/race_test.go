package fifo_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fifo"
)

var names = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// holders counts the holders of each name.
type holders [8]atomic.Int32

func (h *holders) enter(set []int) (alone bool) {
	alone = true
	for _, i := range set {
		alone = h[i].Add(1) == 1 && alone
	}
	return alone
}

func (h *holders) leave(set []int) {
	for _, i := range set {
		h[i].Add(-1)
	}
}

// contend holds random sets of one to four names, one after the other. Some attempts are given up
// before they reach the head.
func contend(t *testing.T, q *fifo.Queue, h *holders, seed uint64) (held int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	c := contender{queue: q}
	for range 200 {
		set := r.Perm(len(names))[:1+r.IntN(4)]
		var wanted []string
		for _, i := range set {
			wanted = append(wanted, names[i])
		}
		c.enter(wanted...)
		if r.IntN(5) > 0 {
			<-c.turn
			if !c.First() || !h.enter(set) {
				t.Errorf("not alone in %v", wanted)
			}
			runtime.Gosched()
			h.leave(set)
			held++
		}
		c.leave()
	}
	return held
}

func TestOverlappingSetsMakeProgressAndExcludeEachOther(t *testing.T) {
	// A bubble detects a deadlock at once.
	synctest.Test(t, func(t *testing.T) {
		q := fifo.New()
		var h holders
		var held atomic.Int64
		var all sync.WaitGroup
		for seed := range uint64(32) {
			all.Go(func() { held.Add(int64(contend(t, q, &h, seed))) })
		}
		all.Wait()
		require.Greater(t, held.Load(), int64(32*100))
		for _, name := range names {
			require.Zero(t, q.Waiting(name))
		}
	})
}

func TestALeaveThatRacesWithTheTurnLosesNoTurn(t *testing.T) {
	for range 1000 {
		q := fifo.New()
		head, quitter, last := enter(q, "a"), enter(q, "a"), enter(q, "a")
		var both sync.WaitGroup
		both.Go(head.leave)
		both.Go(quitter.leave)
		<-last.turn
		both.Wait()
		require.True(t, last.First())
	}
}

func TestATurnContinuesWhileOthersEnterAndLeave(t *testing.T) {
	q := fifo.New()
	held := enter(q, "a")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				k := enter(q, "a", "b")
				k.First()
				q.Waiting("a")
				k.leave()
			}
		})
	}
	all.Wait()
	require.True(t, held.First())
	require.Equal(t, 1, q.Waiting("a"))
}
