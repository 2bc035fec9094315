package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// A caller of Lock.Extend may stay inside a node's Submit for as long as the scheduler or the
// node likes. What is due of that lock meanwhile is deferred, and goes out soon after the caller
// has left. The timers of other locks do not wait.
func TestNoTimerWaitsForACallerInsideSubmit(t *testing.T) {
	for _, row := range []struct {
		name    string
		due     wire.Op            // of the caller's lock meanwhile
		node    int                // in which the caller stays
		answers map[int]wire.Reply // to the caller's extension, by node, before that
		silent  map[int]bool       // nodes that never answer it
		sent    int                // commands of the operation that is due, on that node, in the end
		err     error              // of the caller's extension
	}{
		{"an extension is due", wire.Extend, 1, nil, map[int]bool{0: true, 2: true}, 2, ErrNoQuorum},
		{"a repair is due", wire.Repair, 2, map[int]wire.Reply{2: {Outcome: wire.Refused}}, nil, 1, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			// The bubble's time stands still while a goroutine waits for a mutex.
			stuck := time.AfterFunc(20*time.Second, func() { panic("a timer waits for a caller") })
			defer stuck.Stop()
			inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
				a := take(t, l, "a", time.Minute, WithAutoExtend())
				b := take(t, l, "b", 20050*time.Millisecond)
				c := take(t, l, "c", 30*time.Second, WithAutoExtend())
				pass(a.extendInterval() - 100*time.Millisecond)

				leave := make(chan struct{})
				for i, n := range nodes {
					n.script = func(n *fakeNode, c *wire.Command) bool {
						if c.Op != wire.Extend || c.Token != a.Token() || len(on(n, a, wire.Extend)) > 1 {
							return false
						}
						rep, answered := row.answers[i]
						if answered {
							c.MarkSent()
							c.Answer(rep)
						}
						if i == row.node {
							<-leave
						}
						return answered || row.silent[i]
					}
				}
				extended := make(chan error, 1)
				go func() { extended <- a.Extend(bg, time.Minute) }()
				pass(b.Remaining() - 1)
				ctx := b.Context()
				require.NoError(t, ctx.Err())
				pass(1)
				select {
				case <-ctx.Done():
				default:
					require.Fail(t, "another lock's context has not ended")
				}
				require.Greater(t, c.Remaining(), 29*time.Second, "another lock was extended")

				close(leave)
				pass(a.firstPause())
				require.Len(t, on(nodes[row.node], a, row.due), row.sent)
				require.ErrorIs(t, <-extended, row.err)
				require.NoError(t, a.Release(bg))
				require.NoError(t, c.Release(bg))
			}, WithRestartGuard(time.Minute), WithRepair())
		})
	}
}

// on lists the commands of one lock and operation that a node was sent.
func on(n *fakeNode, k *Lock, op wire.Op) (some []*wire.Command) {
	for _, c := range n.commands(op) {
		if c.Token == k.Token() {
			some = append(some, c)
		}
	}
	return some
}
