package redlock

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// freeable counts the Lockers that the garbage collector has not freed yet, and their node sets.
type freeable struct {
	lockers  []weak.Pointer[Locker]
	nodeSets []weak.Pointer[command.NodeSet]
}

func (f *freeable) add(l *Locker) {
	f.lockers, f.nodeSets = append(f.lockers, weak.Make(l)), append(f.nodeSets, weak.Make(l.nodeSet))
}

func (f *freeable) left() (lockers, nodeSets int) {
	for range 3 { // a sync.Pool keeps its contents for two more collections
		runtime.GC()
	}
	for i := range f.lockers {
		if f.lockers[i].Value() != nil {
			lockers++
		}
		if f.nodeSets[i].Value() != nil {
			nodeSets++
		}
	}
	return lockers, nodeSets
}

// The next health check drops the last reference of a connection to a Locker that was closed.
func TestClosedLockersOverSharedNodesAreFreedWhileTheConnectionsLive(t *testing.T) {
	const maxTTL, healthCheck = 5 * time.Second, 10 * time.Second
	for name, opts := range map[string][]Option{"plain": nil, "guarded": {WithRestartGuard(maxTTL)}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				ctx := context.Background()
				nodes := make([]Node, len(fl.masters))
				for i, m := range fl.masters {
					n := fl.node(m, pool.Config{})
					defer n.Close()
					nodes[i] = n
				}
				locker := func() *Locker {
					l, err := New(nodes, append([]Option{WithClock(fl.clock)}, opts...)...)
					require.NoError(fl.t, err)
					return l
				}
				var all freeable
				var users sync.WaitGroup
				for range 250 { // their first commands go out in one batch, which waits for the dials
					l := locker()
					all.add(l)
					users.Go(func() {
						_, _ = l.TryAcquire(ctx, "a", time.Second) // a node in quarantine does not vote
						_ = l.Close(ctx)
					})
				}
				users.Wait()
				pass(maxTTL + time.Second)
				holder := locker()
				for range 250 { // these wait for each other, and so subscribe
					k, err := holder.TryAcquire(ctx, "b", time.Second)
					require.NoError(fl.t, err)
					next := locker()
					users.Go(func() {
						waited, err := next.Acquire(ctx, "b", time.Second)
						require.NoError(fl.t, err)
						require.NoError(fl.t, waited.Release(ctx))
					})
					pass(time.Millisecond)
					require.NoError(fl.t, k.Release(ctx))
					users.Wait()
					require.NoError(fl.t, holder.Close(ctx))
					all.add(holder)
					holder = next
				}
				require.NoError(fl.t, holder.Close(ctx))
				pass(healthCheck)
				lockers, nodeSets := all.left()
				require.Zero(fl.t, lockers)
				require.Zero(fl.t, nodeSets)
				for _, n := range nodes {
					require.Equal(fl.t, int64(1), n.(*pool.Node).Stats().Dials)
				}
			})
		})
	}
}
