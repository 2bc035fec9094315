package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestANodeThatFailsAHealthCheckDoesNotVote(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, acquiring("A", time.Hour, "a").Outcome(t, n))
		m.FailWith("INFO", busy)
		time.Sleep(healthyEvery - 100*time.Millisecond)
		require.Equal(t, command.Granted, acquiring("B", time.Hour, "b").Outcome(t, n), "it is not due")
		time.Sleep(200 * time.Millisecond)
		for _, c := range []*call{acquiring("C", time.Hour, "c"), inspecting("a"), pinging()} {
			requireUnfit(t, c.On(n).Reply(t), "n1", "health check", busy)
		}
		require.Equal(t, command.Granted, extending("A", time.Hour, "a").Outcome(t, n), "an extension")
		requireUnfit(t, acquiring("C", time.Hour, "c").On(n).Reply(t), busy)
		require.Equal(t, command.Granted, undoing("A", "a").Within(n, time.Hour).Outcome(t, n), "an undo")
		except(n, true)
		require.Equal(t, command.Granted, acquiring("D", time.Hour, "d").Outcome(t, n), "an exception was made")
		except(n, false)
		requireUnfit(t, acquiring("C", time.Hour, "c").On(n).Reply(t), busy)

		m.ForgetLog()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 10, count(m, "INFO"), 1)
		m.FailWith("INFO", "")
		time.Sleep(unhealthyEvery + time.Millisecond)
		require.Equal(t, command.Granted, acquiring("C", time.Hour, "c").Outcome(t, n), "the first that succeeds")
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.InDelta(t, 6, count(m, "INFO"), 1)
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// docs/dev/rules.md rule 18. LOADING also ends the connection, and no dial succeeds meanwhile.
func TestANodeThatAnsweredByErrorsVotesWithinASecondOfItsRecovery(t *testing.T) {
	for _, with := range []string{busy, "LOADING Redis is loading the dataset in memory"} {
		for _, lasts := range []time.Duration{10 * time.Millisecond, time.Second, 5 * time.Second, time.Minute} {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				synctest.Wait()
				m.FailWith("*", with)
				for began := time.Now(); time.Since(began) < lasts; time.Sleep(time.Millisecond) {
					require.NotEqual(t, command.Granted, acquiring("A", longTTL, "a").Outcome(t, n))
				}
				m.FailWith("*", "")
				time.Sleep(time.Second + time.Millisecond)
				require.Equal(t, command.Granted, acquiring("A", longTTL, "a").Outcome(t, n), "%s for %v", with, lasts)
			})
		}
	}
}

// An acquire that fails by an error starts the checks. A script that runs for too long costs the
// votes of a second, and not of half a minute.
func TestAnErrorHasTheNodeCheckedSoon(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		time.Sleep(time.Second)
		m.FailWith("*", busy)
		m.ForgetLog()
		for range 1100 { // as from a client that keeps trying
			r := acquiring("A", longTTL, "a").On(n).Reply(t)
			require.Equal(t, command.Failed, r.Outcome)
			time.Sleep(time.Millisecond)
		}
		requireUnfit(t, acquiring("A", longTTL, "a").On(n).Reply(t), busy)
		require.Equal(t, 1, count(m, "INFO"))
		m.ForgetLog()
		for range 1000 {
			acquiring("A", longTTL, "a").On(n).Reply(t)
			time.Sleep(time.Millisecond)
		}
		require.Empty(t, quiet(m), "it is not asked any more")
		require.InDelta(t, 1, count(m, "INFO"), 1)
	})
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		time.Sleep(time.Second)
		m.FailWith("SET", "OOM command not allowed")
		m.ForgetLog()
		for range 10_000 {
			acquiring("A", longTTL, "a").On(n).Reply(t)
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, count(m, "INFO"), 11, "no more than once a second")
		require.Equal(t, command.Granted, pinging().Outcome(t, n), "its checks are well")
	})
}

// The error comes while a check is on its way. Its answer comes soon, so no second check is sent, however
// long the server then takes.
func TestAnErrorAsksForNoCheckBesideTheOneThatIsInFlight(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.FailWith("SET", "OOM command not allowed")
		m.ForgetLog()
		m.SetDelay(500 * time.Millisecond)
		time.Sleep(healthyEvery - 200*time.Millisecond)
		r := acquiring("A", longTTL, "a").On(n).Reply(t) // 300 ms after the check was sent
		require.Equal(t, command.Failed, r.Outcome)
		only(t, m).HoldReplies()
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, count(m, "INFO"))
		only(t, m).Release()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
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
					for second := range 60 {
						m.ForgetLog()
						time.Sleep(time.Second)
						require.LessOrEqual(t, len(m.Log()), 2, "%s: second %d: %v", name, second, names(m))
					}
					failing(m, "")
					m.FailWith("*", "")
					time.Sleep(unhealthyEvery + 20*time.Millisecond)
					require.Equal(t, command.Granted, pinging().Outcome(t, n), "it was asked within a second")
					time.Sleep(maxRetryDelay)
					require.Empty(t, m.Keys())
				})
			}
		}
	}
}
