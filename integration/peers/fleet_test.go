package peers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/redistest"
)

// contention is how long clients of both libraries contend for the same names.
const contention = 30 * time.Second

// register is what a name protects. A holder uses it in two steps, and no other holder may come between them.
type register struct {
	inside   atomic.Int32
	overlaps atomic.Int64
	turns    atomic.Int64
}

// use is the work of one holder.
func (r *register) use(d time.Duration) {
	if r.inside.Add(1) > 1 {
		r.overlaps.Add(1)
	}
	time.Sleep(d)
	r.inside.Add(-1)
	r.turns.Add(1)
}

// clientGroup is clients that all use the same few registers.
type clientGroup struct {
	registers []*register
	turns     []atomic.Int64 // of each client
}

// run has every client contend from several goroutines. keyOf returns the key by which a client
// locks a register.
func (f *clientGroup) run(t *testing.T, clients []adapters.Adapter, d time.Duration, keyOf func(client, register int) string) {
	t.Helper()
	f.turns = make([]atomic.Int64, len(clients))
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for c, client := range clients {
		for g := range 3 {
			all.Go(func() {
				for turn := g; ctx.Err() == nil; turn++ {
					f.turn(ctx, t, client, keyOf(c, turn%len(f.registers)), turn%len(f.registers), c)
					time.Sleep(10 * time.Millisecond) // gives clients that poll a chance
				}
			})
		}
	}
	all.Wait()
}

func (f *clientGroup) turn(ctx context.Context, t *testing.T, client adapters.Adapter, key string, register, number int) {
	t.Helper()
	hold, err := client.Acquire(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return
	}
	f.registers[register].use(2 * time.Millisecond)
	f.turns[number].Add(1)
	assert.NoError(t, hold.Release(context.WithoutCancel(ctx)))
}

func (f *clientGroup) overlaps() (n int64) {
	for _, r := range f.registers {
		n += r.overlaps.Load()
	}
	return n
}

// openGroup opens clients of both libraries on the same three servers.
func openGroup(t *testing.T) (names []string, clients []adapters.Adapter) {
	t.Helper()
	nodes := redistest.Start(t, 3)
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr()
	}
	names = []string{
		adapters.Ours, adapters.Yardstick, adapters.Ours + ", fencing", "redsync, go-redis", adapters.Ours + ", async release", "redsync, rueidis",
	}
	for _, name := range names {
		kind, err := adapters.Find(name)
		require.NoError(t, err)
		c, err := kind.Open(t.Context(), addrs, adapters.Options{Goroutines: 3, TTL: time.Minute, NodeTimeout: 10 * time.Second})
		require.NoError(t, err, name)
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		clients = append(clients, c)
	}
	return names, clients
}

func newGroup() *clientGroup { return &clientGroup{registers: []*register{{}, {}, {}}} }

func TestRedsyncAndThisLibraryExcludeEachOther(t *testing.T) {
	names, clients := openGroup(t)
	f := newGroup()
	f.run(t, clients, contention, func(_, register int) string { return fmt.Sprintf("register/%d", register) })
	assert.Zero(t, f.overlaps(), "two clients held one name at once")
	for i, name := range names {
		t.Logf("%-32s %5d turns", name, f.turns[i].Load())
		assert.Positive(t, f.turns[i].Load(), "%s never got the lock", name)
	}
}

// A migrated instance gets its share beside instances that still use redsync, within a factor of
// two. Those announce no releases, so it polls as often as they do.
func TestAMigratedInstanceGetsItsShare(t *testing.T) {
	for held, locks := range map[time.Duration]int{
		2 * time.Millisecond: 1, 20 * time.Millisecond: 1, 200 * time.Millisecond: 6, // so many turns that chance decides little
	} {
		t.Run(held.String(), func(t *testing.T) {
			nodes := redistest.Start(t, 3)
			addrs := make([]string, len(nodes))
			for i, n := range nodes {
				addrs[i] = n.Addr()
			}
			names := []string{adapters.Ours, adapters.Yardstick, adapters.Yardstick, adapters.Yardstick}
			turns := make([]atomic.Int64, len(names))
			ctx, cancel := context.WithTimeout(t.Context(), contention)
			defer cancel()
			var all sync.WaitGroup
			for i, name := range names {
				kind, err := adapters.Find(name)
				require.NoError(t, err)
				c, err := kind.Open(t.Context(), addrs, adapters.Options{Goroutines: locks, TTL: time.Minute, NodeTimeout: 10 * time.Second})
				require.NoError(t, err, name)
				t.Cleanup(func() { assert.NoError(t, c.Close()) })
				for lock := range locks {
					all.Go(func() {
						for ctx.Err() == nil {
							hold, err := c.Acquire(ctx, fmt.Sprint("share/", lock))
							if err != nil {
								continue
							}
							turns[i].Add(1)
							time.Sleep(held)
							assert.NoError(t, hold.Release(context.WithoutCancel(ctx)))
							time.Sleep(held)
						}
					})
				}
			}
			all.Wait()
			had, sum := make([]int64, len(turns)), int64(0)
			for i := range turns {
				had[i] = turns[i].Load()
				sum += had[i]
			}
			share := float64(had[0]) / float64(sum)
			t.Logf("turns %v: the migrated instance has %.0f %%", had, 100*share)
			assert.GreaterOrEqual(t, share, 0.125)
			assert.LessOrEqual(t, share, 0.5)
		})
	}
}

// The control: clients that lock different keys do not exclude each other, and the test detects it.
func TestClientsThatDisagreeOnKeysAreDetected(t *testing.T) {
	_, clients := openGroup(t)
	f := newGroup()
	f.run(t, clients, 5*time.Second, func(client, register int) string { return fmt.Sprintf("register/%d/%d", register, client%2) })
	assert.Positive(t, f.overlaps())
}

// Every adapter of the measurements acquires a lock, is refused a held one, waits for it and
// releases it. Otherwise the measurements would not measure locks.
func TestEveryAdapterLocks(t *testing.T) {
	for _, kind := range adapters.Kinds() {
		if kind.Limit {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			a, b := openTwo(t, kind)
			hold, err := a.Acquire(t.Context(), "x")
			require.NoError(t, err)
			_, err = b.Try(t.Context(), "x")
			require.Error(t, err, "the lock is held")
			waited := make(chan error, 1)
			go func() {
				k, err := b.Acquire(t.Context(), "x")
				if err == nil {
					err = k.Release(context.WithoutCancel(t.Context()))
				}
				waited <- err
			}()
			select {
			case err := <-waited:
				t.Fatal("acquired a held lock", err)
			case <-time.After(50 * time.Millisecond):
			}
			require.NoError(t, hold.Release(t.Context()))
			require.NoError(t, <-waited)
		})
	}
}

func openTwo(t *testing.T, kind adapters.Kind) (a, b adapters.Adapter) {
	t.Helper()
	nodes := redistest.Start(t, 3)
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr()
	}
	open := func() adapters.Adapter {
		c, err := kind.Open(t.Context(), slices.Clone(addrs), adapters.Options{Goroutines: 2, TTL: time.Minute, NodeTimeout: 10 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		return c
	}
	return open(), open()
}
