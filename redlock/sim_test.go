package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// sim is a simulation of contenders in several processes, on masters with faults, in virtual time.
// All random choices come from its seed, but the interleaving of goroutines does not. So a seed
// finds its fault again in most runs, not in all.
type sim struct {
	fl   *testbed
	seed uint64

	masters, processes, contenders int           // contenders in each process
	rounds                         int           // acquisitions that each contender tries
	ttl                            time.Duration // of each lock

	history history
}

func (s *sim) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, stream)) }

// run runs the contenders while faults happen. It returns when all contenders have finished, the
// masters are healthy and no lock is held.
func (s *sim) run(t *testing.T) {
	t.Helper()
	inBubble(t, s.masters, func(fl *testbed) {
		s.fl = fl
		base := goroutines()
		var lockers []*Locker
		var work sync.WaitGroup
		for p := range s.processes {
			l := fl.process().locker(WithOwner(fmt.Sprint("p", p)))
			lockers = append(lockers, l)
			for c := range s.contenders {
				work.Go(func() { s.contend(l, s.random(uint64(1000+100*p+c))) })
			}
		}
		ctx, stop := context.WithCancel(context.Background())
		var faults sync.WaitGroup
		faults.Go(func() { s.disturb(ctx, s.random(1)) })
		work.Wait()
		stop()
		faults.Wait()
		s.check(t, lockers, base)
	})
}

// check checks what must hold at the end of every simulation.
func (s *sim) check(t *testing.T, lockers []*Locker, base int) {
	t.Helper()
	require.NoError(t, s.history.overlap(), "seed %d", s.seed)
	const bound = 6 * time.Second // the hard timeout, a dial
	time.Sleep(s.ttl + bound)
	require.Empty(t, s.fl.left(), "seed %d", s.seed)
	for _, l := range lockers {
		require.Zero(t, booked(l), "seed %d", s.seed)
		require.Zero(t, stats(l).Queued, "seed %d", s.seed)
		s.fl.close(l)
	}
	require.Equal(t, base, goroutines(), "seed %d", s.seed)
}

// contend acquires, holds for a time or to the end, and releases, round after round.
func (s *sim) contend(l *Locker, random *rand.Rand) {
	for range s.rounds {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+random.Int64N(int64(20*s.ttl))))
		acquire := l.Acquire
		if random.IntN(4) == 0 {
			acquire = l.TryAcquire
		}
		k, err := acquire(ctx, "a", s.ttl)
		cancel()
		if err == nil {
			s.hold(k, random)
		}
		time.Sleep(time.Duration(random.Int64N(int64(s.ttl))))
	}
}

func (s *sim) hold(k *Lock, random *rand.Rand) {
	sp := s.history.begin("a", k)
	work := time.NewTimer(time.Duration(random.Int64N(int64(s.ttl+s.ttl/4) >> random.IntN(4))))
	defer work.Stop()
	select {
	case <-work.C:
	case <-k.Context().Done():
	}
	s.history.end(sp)
	if err := k.Release(context.Background()); err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNoQuorum) {
		panic(err)
	}
}

// disturb injects a fault into some master every now and then, and makes all healthy in the end.
// Data is kept: a master that loses data violates Redlock's assumptions.
func (s *sim) disturb(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		m := s.fl.masters[random.IntN(len(s.fl.masters))]
		switch random.IntN(6) {
		case 0, 1:
			m.SetDelay(time.Duration(random.Int64N(int64(s.ttl / 4))))
		case 2:
			m.Freeze()
		case 3, 4:
			m.Unfreeze()
		case 5:
			_ = m.Restart(true)
		}
		time.Sleep(time.Duration(random.Int64N(int64(s.ttl / 2))))
	}
	s.fl.each(func(m *fakeredis.Master) {
		m.SetDelay(0)
		m.Unfreeze()
	})
}

// The promises of docs/dev/rules.md, over random faults.
func TestNoTwoHoldersAtOnceWhateverTheMastersDo(t *testing.T) {
	const seeds = uint64(8) // integration/sim has thousands
	var won atomic.Int64
	t.Run("all", func(t *testing.T) {
		for seed := range seeds {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				s := &sim{seed: seed, masters: 3, processes: 4, contenders: 4, rounds: 1, ttl: 100 * time.Millisecond}
				s.run(t)
				won.Add(int64(len(s.history.spans)))
			})
		}
	})
	require.Greater(t, won.Load(), int64(8*seeds), "the simulation does not get anywhere")
}
