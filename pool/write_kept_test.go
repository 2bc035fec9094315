package pool

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A command leads to its lock, and a lock to the contexts of its owner. After a burst a connection keeps
// none of them, however long it lives.
func TestAConnectionKeepsNoCommandOfABurst(t *testing.T) {
	merging(t, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		var sent []weak.Pointer[call]
		burst := func(one func(token, key string) *call) {
			var all []*call
			for i := range 100 {
				c := one(fmt.Sprint("T", i), fmt.Sprint("k", i))
				all, sent = append(all, c), append(sent, weak.Make(c))
			}
			together(n, all...)
			for _, c := range all {
				require.Equal(t, command.Granted, c.Reply(t).Outcome)
			}
		}
		burst(func(token, key string) *call { return acquiring(token, longTTL, key) })
		burst(func(token, key string) *call { return extending(token, longTTL, key) })
		burst(func(token, key string) *call { return announcing(token, key) })
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		synctest.Wait()
		runtime.GC()
		kept := 0
		for _, c := range sent {
			if c.Value() != nil {
				kept++
			}
		}
		require.Zero(t, kept)
	})
}
