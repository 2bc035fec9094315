package pool

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestANodeThatFailsThreeHealthChecksDoesNotVote(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, acquiring("A", time.Hour, "a").outcome(t, n))
		m.FailWith("INFO", busy)
		time.Sleep(healthyEvery + 2*unhealthyEvery - 100*time.Millisecond)
		require.Equal(t, command.Granted, acquiring("B", time.Hour, "b").outcome(t, n), "two")
		time.Sleep(200 * time.Millisecond)
		for _, c := range []*call{acquiring("C", time.Hour, "c"), inspecting("a"), pinging()} {
			requireUnfit(t, c.on(n).reply(t), "n1", "health checks", busy)
		}
		extension, after := extending("A", time.Hour, "a"), acquiring("C", time.Hour, "c")
		nodeSet := command.NewNodeSet(false)
		extension.req.NodeSet, after.req.NodeSet = nodeSet, nodeSet
		require.Equal(t, command.Granted, extension.outcome(t, n), "an extension")
		requireUnfit(t, after.on(n).reply(t), busy)
		require.Equal(t, command.Granted, undoing("A", "a").within(n, time.Hour).outcome(t, n), "an undo")
		require.Equal(t, command.Granted, acquiring("D", time.Hour, "d").anyway().outcome(t, n), "an exception was made")
		requireUnfit(t, acquiring("C", time.Hour, "c").on(n).reply(t), busy)

		m.ForgetLog()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 20, count(m, "INFO"), 1)
		m.FailWith("INFO", "")
		time.Sleep(unhealthyEvery + time.Millisecond)
		require.Equal(t, command.Granted, acquiring("C", time.Hour, "c").outcome(t, n), "the first that succeeds")
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.InDelta(t, 6, count(m, "INFO"), 1)
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// Only consecutive failures of checks count.
func TestACheckThatSucceedsForgetsThoseThatFailed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		for range 10 {
			m.ForgetLog()
			m.FailWith("INFO", busy)
			for count(m, "INFO") < maxFailedChecks-1 {
				time.Sleep(time.Millisecond)
			}
			m.FailWith("INFO", "")
			time.Sleep(unhealthyEvery + time.Millisecond)
			require.Equal(t, command.Granted, pinging().outcome(t, n))
		}
	})
}

// An acquire that fails by an error starts the checks. A script that runs for too long costs the
// votes of a second, and not of half a minute.
func TestAnErrorHasTheNodeCheckedSoon(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		time.Sleep(time.Second)
		m.FailWith("*", busy)
		m.ForgetLog()
		for range 1200 { // as from a client that keeps trying
			r := acquiring("A", longTTL, "a").on(n).reply(t)
			require.Equal(t, command.Failed, r.Outcome)
			time.Sleep(time.Millisecond)
		}
		requireUnfit(t, acquiring("A", longTTL, "a").on(n).reply(t), busy)
		require.LessOrEqual(t, count(m, "INFO"), 4)
		m.ForgetLog()
		for range 1000 {
			acquiring("A", longTTL, "a").on(n).reply(t)
			time.Sleep(time.Millisecond)
		}
		require.Empty(t, quiet(m), "it is not asked any more")
		require.InDelta(t, 2, count(m, "INFO"), 1)
	})
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		time.Sleep(time.Second)
		m.FailWith("SET", "OOM command not allowed")
		m.ForgetLog()
		for range 10_000 {
			acquiring("A", longTTL, "a").on(n).reply(t)
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, count(m, "INFO"), 21, "no more than twice a second")
		require.Equal(t, command.Granted, pinging().outcome(t, n), "its checks are well")
	})
}

// Both checks and probes count.
func TestAnIdleClientSendsAFailingNodeTwoCommandsASecondAtMost(t *testing.T) {
	for _, with := range []string{busy, weird} {
		for _, many := range []int{0, 1, 1000} {
			for name, fails := range map[string]func(m *fakeredis.Master){
				"all":         func(m *fakeredis.Master) { m.FailWith("*", with) },
				"locks alone": func(*fakeredis.Master) {},
			} {
				inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
					parkedUndos(t, m, n, many, with)
					fails(m)
					time.Sleep(2*time.Second + time.Millisecond) // not at an instant at which a command is due
					var last, longest atomic.Int64
					watch := func() {
						last.Store(time.Now().UnixNano())
						m.Hook(func(int64, string, []string) (string, bool) {
							now := time.Now().UnixNano()
							longest.Store(max(longest.Load(), now-last.Swap(now)))
							return "", false
						})
					}
					for second := range 60 {
						if second == 20 { // the checks have failed by then
							watch()
						}
						m.ForgetLog()
						time.Sleep(time.Second)
						require.LessOrEqual(t, len(m.Log()), 2, "%s: second %d: %v", name, second, names(m))
					}
					m.Hook(nil)
					if name == "all" {
						require.LessOrEqual(t, time.Duration(longest.Load()), unhealthyEvery+time.Millisecond, "it is asked every 500 ms")
					}
					failing(m, "")
					m.FailWith("*", "")
					time.Sleep(unhealthyEvery + 20*time.Millisecond)
					require.Equal(t, command.Granted, pinging().outcome(t, n), "it was asked within half a second")
					time.Sleep(maxRetryDelay)
					require.Empty(t, m.Keys())
				})
			}
		}
	}
}
