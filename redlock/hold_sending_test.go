package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// A caller of Lock.Extend may stay inside a node's Submit for any time. What becomes due for that
// lock meanwhile is deferred until soon after the caller has left. The timers of other locks do not
// wait.
func TestNoTimerWaitsForACallerInsideSubmit(t *testing.T) {
	for _, row := range []struct {
		name    string
		due     command.Op            // what becomes due for the caller's lock meanwhile
		node    int                   // the node whose Submit the caller stays in
		answers map[int]command.Reply // earlier answers to the caller's extension, by node
		silent  map[int]bool          // nodes that never answer it
		sent    int                   // the commands of the due operation on that node in the end
		err     error                 // of the caller's extension
	}{
		{"an extension is due", command.Extend, 1, nil, map[int]bool{0: true, 2: true}, 2, ErrNoQuorum},
		{"a repair is due", command.Repair, 2, map[int]command.Reply{2: {Outcome: command.Refused}}, nil, 1, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			// The bubble's time does not advance while a goroutine waits for a mutex.
			stuck := time.AfterFunc(20*time.Second, func() { panic("a timer waits for a caller") })
			defer stuck.Stop()
			inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
				a := take(t, l, "a", time.Minute, WithAutoExtend())
				b := take(t, l, "b", 20050*time.Millisecond)
				c := take(t, l, "c", 30*time.Second, WithAutoExtend())
				pass(a.lease.Terms.Interval - 100*time.Millisecond)

				leave := make(chan struct{})
				for i, n := range nodes {
					n.script = func(n *fakeNode, c *command.Command) bool {
						if c.Op != command.Extend || c.Token() != a.Token() || len(on(n, a, command.Extend)) > 1 {
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
				pass(a.lease.FirstPause())
				require.Len(t, on(nodes[row.node], a, row.due), row.sent)
				require.ErrorIs(t, <-extended, row.err)
				require.NoError(t, a.Release(bg))
				require.NoError(t, c.Release(bg))
			}, WithRestartGuard(time.Minute), WithRepair())
		})
	}
}

// on lists the commands for one lock and operation that a node was sent.
func on(n *fakeNode, k *Lock, op command.Op) (some []*command.Command) {
	for _, c := range n.commands(op) {
		if c.Token() == k.Token() {
			some = append(some, c)
		}
	}
	return some
}
