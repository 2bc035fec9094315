package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// crowd has contenders for overlapping names in two processes. They end their holds in every way,
// give up and come again. No contender may wait without end, and none may be left over.
type crowd struct {
	t       *testing.T
	seed    uint64
	lockers []*Locker
}

// longWait is far more than all the others' holds take together.
const longWait = 30 * time.Second

func (c *crowd) contend(who int) {
	random := rand.New(rand.NewPCG(c.seed, uint64(who)))
	l := c.lockers[who%len(c.lockers)]
	for range 6 {
		names := []string{"a", "b", "c"}
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:1+random.IntN(2)]
		patience, acquire := longWait, l.AcquireAll
		switch random.IntN(5) {
		case 0:
			patience = time.Duration(random.Int64N(int64(30 * time.Millisecond)))
		case 1:
			acquire = l.TryAcquireAll
		}
		ctx, cancel := context.WithTimeout(bg, patience)
		k, err := acquire(ctx, names, time.Duration(20+random.IntN(200))*time.Millisecond, c.options(random)...)
		if patience == longWait {
			require.NoError(c.t, ctx.Err(), "seed %d, contender %d, %v: %v", c.seed, who, names, err)
		}
		cancel()
		if err == nil {
			c.end(k, random)
		}
		time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond))))
	}
}

func (c *crowd) options(random *rand.Rand) []LockOption {
	switch random.IntN(5) {
	case 0:
		return []LockOption{WithAsyncRelease()}
	case 1:
		return []LockOption{WithMinHold(15 * time.Millisecond)}
	case 2:
		return []LockOption{WithMaxHold(11 * time.Millisecond), WithAutoExtend()}
	}
	return nil
}

// end holds for a while and then ends the hold, or lets it end.
func (c *crowd) end(k *Lock, random *rand.Rand) {
	time.Sleep(time.Duration(random.Int64N(int64(15 * time.Millisecond))))
	switch random.IntN(4) {
	case 0:
		<-k.Context().Done()
	case 1:
		claim, err := k.Detach()
		if err != nil {
			break
		}
		if next, err := c.lockers[random.IntN(len(c.lockers))].Resume(bg, claim); err == nil {
			k = next
		}
	}
	_ = k.Release(bg)
}

func TestEveryWaiterOfACrowdGetsTheLock(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(fl *testbed) {
				fl.each(func(m *fakeredis.Master) { m.SetDelay(time.Duration(seed%3) * time.Millisecond) })
				c := &crowd{t: fl.t, seed: seed}
				for range 2 {
					c.lockers = append(c.lockers, fl.process().locker())
				}
				var all sync.WaitGroup
				for who := range 10 {
					all.Go(func() { c.contend(who) })
				}
				all.Wait()
				pass(settled)
				for _, l := range c.lockers {
					quiet(fl.t, l)
					require.Zero(fl.t, booked(l))
				}
				require.Empty(fl.t, fl.left())
			})
		})
	}
}
