//go:build !race

package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// willing is a node that grants everything, and costs nothing itself. It answers inside Submit, because no
// other goroutine is to be measured, and so cannot extend a lock.
type willing struct {
	plain
	name string
}

func (w *willing) Name() string { return w.name }

func (*willing) Submit(c, _ *command.Command) error {
	c.MarkSent()
	c.Answer(command.Reply{Outcome: command.Granted, Fence: c.Hint()})
	return nil
}

// An acquire and its release take 11 allocations on up to three nodes, and two more on others. Fencing
// takes three more. (Under the race detector there are more.)
func TestAcquireAndReleaseTakeFewAllocations(t *testing.T) {
	requireAllocations(t, 11)
	requireAllocations(t, 14, WithFencing())
}

func requireAllocations(t *testing.T, most float64, opts ...Option) {
	t.Helper()
	for _, n := range []int{1, 3, 5} {
		nodes := make([]command.Voter, n)
		for i := range nodes {
			nodes[i] = &willing{name: string(rune('a' + i))}
		}
		l, err := newOver(nodes, opts...)
		require.NoError(t, err)
		for name, acquire := range map[string]func() (*Lock, error){
			"TryAcquire": func() (*Lock, error) { return l.TryAcquire(bg, "invoice/42", time.Minute) },
			"Acquire":    func() (*Lock, error) { return l.Acquire(bg, "invoice/42", time.Minute) },
		} {
			allocs := testing.AllocsPerRun(1000, func() {
				k, err := acquire()
				if err != nil || k.Release(bg) != nil {
					t.Error("not acquired or not released")
				}
			})
			t.Log(name, "on", n, "nodes:", allocs)
			if n > 3 {
				allocs -= 2
			}
			require.LessOrEqual(t, allocs, most, "%s on %d nodes", name, n)
		}
	}
}

// What this package costs by itself, without any node or network.
func BenchmarkOwnWork(b *testing.B) {
	l, err := newOver([]command.Voter{&willing{name: "a"}, &willing{name: "b"}, &willing{name: "c"}})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		k, err := l.Acquire(bg, "invoice/42", time.Minute)
		if err != nil || k.Release(bg) != nil {
			b.Fatal("not acquired or not released")
		}
	}
}
