package redlock

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// watchedNode records by which kind of goroutine each command was submitted.
type watchedNode struct {
	Node

	mu   sync.Mutex
	seen map[command.Op][]command.Submitter
}

func (n *watchedNode) Submit(c *command.Command) {
	n.mu.Lock()
	n.seen[c.Op] = append(n.seen[c.Op], c.Submitter)
	n.mu.Unlock()
	n.Node.Submit(c)
}

// take returns how each command of one operation was submitted since the last call, without
// duplicates.
func (n *watchedNode) take(op command.Op) []command.Submitter {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.Compact(n.seen[op])
	n.seen[op] = nil
	return all
}

// watched makes a guarded Locker whose third node is watched.
func (fl *testbed) watched(opts ...Option) (*Locker, *watchedNode) {
	fl.t.Helper()
	n := &watchedNode{Node: fl.node(fl.masters[2], pool.Config{}), seen: map[command.Op][]command.Submitter{}}
	nodes := []Node{fl.node(fl.masters[0], pool.Config{}), fl.node(fl.masters[1], pool.Config{}), n}
	l, err := New(nodes, append([]Option{WithClock(fl.clock), WithRestartGuard(guardTTL)}, opts...)...)
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() {
		fl.close(l)
		_ = n.Node.(*pool.Node).Close()
	})
	fl.serve(l)
	for op := range n.seen {
		n.take(op)
	}
	return l, n
}

func TestWhatTheLibraryStartsItselfIsLeftToTheWriters(t *testing.T) {
	library := []command.Submitter{command.ByLibrary}
	inBubble(t, 3, func(fl *testbed) {
		l, n := fl.watched(WithRepair())
		take(t, l, "a", 2*time.Second, WithAutoExtend(), WithMaxHold(10*time.Second))
		next := make(chan *Lock, 1)
		go func() {
			k, _ := l.Acquire(bg, "a", 2*time.Second)
			next <- k
		}()
		pass(100 * time.Millisecond)
		n.take(command.Acquire)
		pass(time.Second)
		require.Equal(t, library, n.take(command.Extend), "an automatic extension")
		fl.masters[2].Del("a")
		pass(2 * time.Second)
		require.Equal(t, library, n.take(command.Extend))
		require.Equal(t, library, n.take(command.Repair), "a repair")
		n.take(command.Release)
		n.take(command.Acquire)
		k := <-next
		require.Equal(t, library, n.take(command.Release), "the undo of a lock that a timer ended")
		require.Equal(t, library, n.take(command.Acquire), "the attempt that goes behind it")
		require.NoError(t, k.Release(bg))
	})
}

func TestCommandsOfCallersAreWrittenByThem(t *testing.T) {
	caller := []command.Submitter{command.ByCaller}
	inBubble(t, 3, func(fl *testbed) {
		l, n := fl.watched()
		k := take(t, l, "a", 2*time.Second)
		require.Equal(t, caller, n.take(command.Acquire))
		require.NoError(t, k.Extend(bg, 5*time.Second))
		require.Equal(t, caller, n.take(command.Extend))
		require.NoError(t, k.Check(bg))
		require.Equal(t, caller, n.take(command.Inspect))

		fl.masters[2].Del("a") // so that it is granted there
		_, err := l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, caller, n.take(command.Release), "the undo of an attempt that lost")

		next := make(chan *Lock, 1)
		go func() {
			k, _ := l.Acquire(bg, "a", 2*time.Second)
			next <- k
		}()
		pass(100 * time.Millisecond)
		n.take(command.Acquire)
		require.NoError(t, k.Release(bg))
		require.Equal(t, caller, n.take(command.Release))
		require.Equal(t, caller, n.take(command.Acquire), "the attempt that goes behind it")
		require.NoError(t, (<-next).Release(bg))
	})
}
