package integration

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// counterOf returns the key of the fence counter of a lock key.
func counterOf(key string) string { return "redlock:fence:" + key }

// Two holders at once: an administrator makes the lock expire early on the node that both quorums
// share. The order of their fences is the order in which that node granted.
func TestFencesOfOverlappingHoldersAreInOrder(t *testing.T) {
	nodes := masters(t, 3)
	a, b := open(t, nodes, redlock.WithFencing()), open(t, nodes, redlock.WithFencing())
	answered(t, a)
	answered(t, b)
	ahead := func(n *redistest.Node, key string) {
		n.Do(t, "SET", counterOf(key), time.Now().Add(time.Hour).UnixMicro())
	}
	for name, skew := range map[string]func(key string){
		"alike":                      func(string) {},
		"the first counter is ahead": func(key string) { ahead(nodes[0], key) },
		"the last counter is ahead":  func(key string) { ahead(nodes[2], key) },
	} {
		t.Run(name, func(t *testing.T) {
			skew(name)
			nodes[2].Do(t, "SET", name, "an administrator")
			first := acquired(t, a, name, time.Minute)
			answered(t, a) // the third node has refused
			nodes[2].Do(t, "DEL", name)
			nodes[1].Do(t, "PEXPIRE", name, 1)
			await(t, "the key has expired on the second node", func() bool { return len(nodes[1].Keys(t, name)) == 0 })

			second := acquired(t, b, name, time.Minute)
			require.Positive(t, first.Remaining(), "both hold the lock")
			require.Greater(t, second.Fence(), first.Fence())
			require.True(t, redlock.AcceptFence(first.Fence(), first.Token(), second.Fence(), second.Token()))
			require.False(t, redlock.AcceptFence(second.Fence(), second.Token(), first.Fence(), first.Token()))
			released(t, second)
			_ = first.Release(t.Context()) // it has lost the shared node
		})
	}
}

// confirmations counts the acquisitions of several Lockers, and those that needed a second round
// trip.
type confirmations struct {
	mu          sync.Mutex
	won, second int
}

func (c *confirmations) trace() redlock.Option {
	return redlock.WithTrace(&redlock.Trace{Attempt: func(e redlock.RoundEvent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if e.Err == nil {
			c.won++
		}
		if e.Confirmed && e.Err == nil {
			c.second++
		}
	}})
}

// Sixteen contenders, four to a Locker. Each holder's fence is larger than all before.
func TestFencesIncreaseUnderContention(t *testing.T) {
	const lockers, each, rounds = 4, 4, 40
	for _, n := range []int{3, 5} {
		t.Run(strconv.Itoa(n)+" nodes", func(t *testing.T) {
			nodes := masters(t, n)
			var counts confirmations
			var last int64 // guarded by the lock
			var all sync.WaitGroup
			for range lockers {
				l := open(t, nodes, redlock.WithFencing(), counts.trace())
				answered(t, l)
				for range each {
					all.Go(func() {
						for range rounds {
							k, err := l.Acquire(t.Context(), "contended", 20*time.Second)
							if !assert.NoError(t, err) {
								return
							}
							assert.Greater(t, k.Fence(), last)
							last = k.Fence()
							assert.NoError(t, k.Release(t.Context()))
						}
					})
				}
			}
			all.Wait()
			counts.mu.Lock()
			defer counts.mu.Unlock()
			share := float64(counts.second) / float64(max(counts.won, 1))
			t.Logf("%d acquired, %.1f %% of them confirmed", counts.won, 100*share) // the share is random here
		})
	}
}
