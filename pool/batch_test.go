package pool

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/embedded"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// One caller alone finds the connection free, and writes itself: its command is on the
// wire when Submit returns, and the writer was not woken for it.
func TestACallerThatIsAloneWritesItself(t *testing.T) {
	overTCP(t, nil, func(t *testing.T, _ *embedded.Master, n *Node) {
		const commands = 100
		before := n.Stats()
		link := n.lanes[0].link
		for i := range commands {
			c := pinging().on(n)
			require.Equal(t, before.Writes+int64(i)+1, n.Stats().Writes, "written when Submit returns")
			require.Equal(t, wire.Granted, c.reply(t).Outcome)
			require.Empty(t, link.wake)
		}
		require.Equal(t, int64(commands), n.Stats().Written-before.Written)
	})
}

// A release and the acquire of whoever is next go out in one write, in this order.
func TestTwoCommandsThatAreSubmittedTogetherShareOneWrite(t *testing.T) {
	overTCP(t, nil, func(t *testing.T, _ *embedded.Master, n *Node) {
		require.Equal(t, wire.Granted, acquiring("one", longTTL, "a").on(n).reply(t).Outcome)
		before := n.Stats()
		for range 50 {
			first, second := releasing("one", "a"), acquiring("one", longTTL, "a")
			n.SubmitBoth(&first.Command, &second.Command)
			require.Equal(t, wire.Granted, first.reply(t).Outcome)
			require.Equal(t, wire.Granted, second.reply(t).Outcome)
		}
		require.Equal(t, int64(100), n.Stats().Written-before.Written)
		require.Equal(t, int64(50), n.Stats().Writes-before.Writes)
	})
}

// What many queue goes out together: a system call costs more than all else.
func TestCommandsOfManyCallersShareWrites(t *testing.T) {
	const callers, each = 64, 100
	perWrite := 0.0
	for range 3 { // how goroutines meet is the scheduler's business
		l := fake(wellBehaved).listen(t, "tcp", "127.0.0.1:0")
		n, err := Open(Config{Address: l.Addr().String()})
		require.NoError(t, err)
		settle(t, n)
		before := n.Stats()
		var g sync.WaitGroup
		for i := range callers {
			g.Go(func() {
				key := fmt.Sprint("k", i)
				for j := range each {
					token := fmt.Sprint(i, "-", j)
					if r := <-acquiring(token, longTTL, key).on(n).answered; r.Outcome != wire.Granted {
						t.Error(r)
					}
					if r := <-releasing(token, key).on(n).answered; r.Outcome != wire.Granted {
						t.Error(r)
					}
				}
			})
		}
		g.Wait()
		after := n.Stats()
		require.NoError(t, n.Close())
		require.Equal(t, int64(2*callers*each), after.Replies-before.Replies)
		perWrite = max(perWrite, float64(after.Written-before.Written)/float64(after.Writes-before.Writes))
		t.Logf("%.1f commands per write", perWrite)
		if perWrite > 3 {
			return
		}
	}
	require.Greater(t, perWrite, 3.0)
}

// A batch that a caller writes is bounded by what any socket takes in without blocking.
func TestACallerWritesNoMoreThanASocketTakesIn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *embedded.Master, n *Node) {
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
		synctest.Wait() // until the writer is idle: the test takes its place
		k := n.lanes[0].link
		fill := func(size, commands int) {
			for range commands {
				n.lanes[0].queue.push(&inspecting(string(make([]byte, size))).Command)
			}
		}
		batch := func(size, commands int, caller bool) (taken, bytes int) {
			k.lane.mu.Lock()
			fill(size, commands)
			k.writing = true
			k.lane.mu.Unlock()
			require.Empty(t, k.takeBatch(caller))
			for _, c := range k.batch {
				bytes += c.Size()
			}
			taken = len(k.batch)
			k.lane.mu.Lock()
			k.lane.queue.popAll(nil)
			k.unanswered.popAll(nil)
			k.sent -= int64(taken)
			k.writing = false
			k.lane.mu.Unlock()
			return taken, bytes
		}
		for _, size := range []int{1, 100, 1000, 3000} {
			taken, bytes := batch(size, 1000, byCaller)
			require.LessOrEqual(t, bytes, 8<<10)
			require.LessOrEqual(t, taken, 64)
			require.Positive(t, taken)
		}
		taken, _ := batch(1, 1000, byWriter)
		require.Equal(t, batchMost, taken)
		_, bytes := batch(100_000, 100, byWriter)
		require.LessOrEqual(t, bytes, batchBytes)
		require.Greater(t, bytes, batchBytes/2)
		taken, _ = batch(3*batchBytes, 2, byWriter)
		require.Equal(t, 1, taken, "one goes, however large")
	})
}

// More than one answer owed, or one to a large command, and what is unread may be too
// much.
func TestACallerWritesBehindOneSmallCommandAtMost(t *testing.T) {
	overTCP(t, nil, func(t *testing.T, _ *embedded.Master, n *Node) {
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
		k := n.lanes[0].link
		k.lane.mu.Lock()
		defer k.lane.mu.Unlock()
		ping := &pinging().Command
		size := ping.Size()
		k.lane.queue.push(ping)
		for _, owed := range []struct {
			answers int64
			last    int
			idle    bool
		}{
			{0, batchBytes, true}, {1, callerBytes - size, true}, {1, callerBytes - size + 1, false}, {2, 1, false},
		} {
			k.sent, k.last = k.answered.Load()+owed.answers, owed.last
			require.Equal(t, owed.idle, k.idle(), owed)
		}
		k.sent = k.answered.Load()
		k.lane.queue.popAll(nil)
	})
}

// What is unanswered is the size of the command that was written last, also when others
// were dropped around it; what a caller adds stays within the bound together with it.
func TestWhatIsUnansweredIsKnownToCallers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *embedded.Master, n *Node) {
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
		synctest.Wait() // until the writer is idle: the test takes its place
		l, k := n.lanes[0], n.lanes[0].link
		large := inspecting(string(make([]byte, 2500)))
		given := func() *wire.Command {
			c := &inspecting(string(make([]byte, 100))).Command
			require.True(t, c.Cancel())
			return c
		}
		l.queue.push(given())
		l.queue.push(&large.Command)
		l.queue.push(given())
		require.Len(t, k.takeBatch(byCaller), 2)
		require.Len(t, k.batch, 1)
		require.Equal(t, large.Size(), k.unread())

		small := inspecting(string(make([]byte, 100)))
		for range 10 {
			l.queue.push(&inspecting(string(make([]byte, 100))).Command)
		}
		require.Empty(t, k.takeBatch(byCaller))
		require.Equal(t, (callerBytes-large.Size())/small.Size(), len(k.batch))
		require.Equal(t, callerBytes, k.unread(), "nobody adds to these")
		require.Empty(t, k.takeBatch(byCaller))
		require.Empty(t, k.batch)

		l.queue.popAll(nil)
		k.unanswered.popAll(nil)
		k.sent = k.answered.Load()
	})
}

// Never over a connection that comes from elsewhere: it may have no buffer at all.
func TestOnlyRealSocketsAreWrittenByCallers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *embedded.Master, n *Node) {
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
		require.False(t, n.source.writable(n.lanes[0].link.session))
	})
	overTCP(t, nil, func(t *testing.T, _ *embedded.Master, n *Node) {
		require.True(t, n.source.writable(n.lanes[0].link.session))
	})
	require.False(t, newWrappedPool(nil, nil).writable(&session{}))
}

func TestStatsCountWhatHappened(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *embedded.Master, n *Node) {
		synctest.Wait()
		require.Equal(t, Stats{Connected: 1, Dials: 1}, n.Stats())
		require.Equal(t, wire.Granted, acquiring("A", longTTL, "k").outcome(t, n))
		require.Equal(t, Stats{Connected: 1, Dials: 1, Commands: 1, Written: 1, Writes: 1, Replies: 1}, n.Stats())

		m.Freeze()
		stuck := stuff(n)
		for range 3 {
			pinging().on(n)
		}
		synctest.Wait()
		s := n.Stats()
		require.Equal(t, 3, s.Queued)
		require.Equal(t, int64(5), s.Commands)
		require.Equal(t, int64(1), s.Replies)
		m.Thaw()
		stuck.reply(t)
		synctest.Wait()
		require.Equal(t, int64(5), n.Stats().Replies)
		require.Equal(t, int64(5), n.Stats().Written)

		m.Stop()
		time.Sleep(time.Second)
		s = n.Stats()
		require.Zero(t, s.Connected)
		require.Equal(t, s.Dials-1, s.DialFailures)
		require.Positive(t, s.DialFailures)
	})
}

func TestTheQueueKeepsItsOrderWhileItGrowsAndShrinks(t *testing.T) {
	var r ring
	var in, out int
	commands := map[*wire.Command]int{}
	push := func(n int) {
		for range n {
			c := &wire.Command{}
			commands[c] = in
			in++
			r.push(c)
		}
	}
	pop := func(n int) {
		for range n {
			first := r.peek()
			require.Same(t, first, r.pop())
			require.Equal(t, out, commands[first])
			out++
		}
	}
	for i := range 40 {
		push(i)
		pop(i / 2)
		require.Equal(t, in-out, r.len())
	}
	for _, c := range r.popAll(nil) {
		require.Equal(t, out, commands[c])
		out++
	}
	require.Equal(t, in, out)
	require.Zero(t, r.len())
	for _, slot := range r.slots {
		require.Nil(t, slot, "what was answered is not kept alive")
	}
}
