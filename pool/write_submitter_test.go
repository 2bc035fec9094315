package pool

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// batchClock records which goroutine puts a command into a batch. The goroutine that writes
// compares the command's not-after instant with the clock right before.
type batchClock struct {
	clock.Clock

	mu    sync.Mutex
	stack string
}

func (c *batchClock) Now() clock.Instant {
	stack := make([]byte, 16<<10)
	stack = stack[:runtime.Stack(stack, false)]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stack = string(stack)
	return c.Clock.Now()
}

func (c *batchClock) writtenBySubmitter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.stack, "(*pipeline).submit")
}

// A write may let other goroutines run first. A goroutine of the library on which other locks
// depend must not wait for them.
func TestWhatTheLibrarySubmitsIsWrittenByTheWriter(t *testing.T) {
	overTCP(t, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		const commands = 20
		for range commands {
			for by, bySubmitter := range map[command.Submitter]bool{command.ByCaller: true, command.ByLibrary: false} {
				settle(t, n)
				c, seen := inspecting("k").within(n, longTTL), &batchClock{Clock: n.cfg.Clock}
				c.req.Clock, c.Submitter = seen, by
				require.Equal(t, command.Granted, c.outcome(t, n))
				require.Equal(t, bySubmitter, seen.writtenBySubmitter())
			}
		}
	})
}

// A node's own commands are marked as well: health checks and repeated undos.
func TestWhatANodeSubmitsItselfIsWrittenByTheWriter(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().outcome(t, n))
		l := n.pipelines[0]
		m.Freeze()
		l.mu.Lock()
		k := l.conn
		k.writing = true // as if a goroutine were writing: submitted commands stay in the queue
		l.mu.Unlock()
		k.check()
		undo := releasing("one", "a")
		l.mu.Lock()
		repeated := l.retryLaterLocked(&undo.Command, false).command
		queued := l.queue.popAll(nil)
		l.mu.Unlock()
		require.Len(t, queued, 1)
		require.Equal(t, command.ByLibrary, queued[0].Submitter)
		require.Equal(t, command.ByLibrary, repeated.Submitter)
	})
}
