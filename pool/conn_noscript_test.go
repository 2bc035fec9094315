package pool

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/hazards.md H28, docs/dev/rules.md rule 7.

func TestAScriptThatTheServerForgotIsSentOnceByItsText(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		for name, c := range map[string]func() *call{
			"acquire": func() *call { return acquiring("A", longTTL, "a", "b") },
			"extend":  func() *call { return extending("H", 2*longTTL, "held") },
			"release": func() *call { return releasing("H", "held") },
			"shorten": func() *call { return shortening("H", longTTL, "held") },
			"inspect": func() *call { return inspecting("held") },
		} {
			m.FlushAll()
			m.Set("held", "H", longTTL)
			m.LoseScripts()
			m.ForgetLog()
			require.Equal(t, command.Granted, c().Outcome(t, n), name)
			require.Equal(t, []string{"EVALSHA " + name, "EVAL " + name}, names(m))
			m.FlushAll()
			m.Set("held", "H", longTTL)
			require.Equal(t, command.Granted, c().Outcome(t, n), name)
			require.Equal(t, 1, count(m, "EVAL "+name), "from then on it knows the hash")
		}
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

func TestEachScriptUnderWayFallsBackOnce(t *testing.T) {
	const many = 100
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.LoseScripts()
		only(t, m).HoldReplies()
		var calls []*call
		for range many {
			calls = append(calls, releasing("A", "k").On(n))
		}
		synctest.Wait()
		only(t, m).Release()
		for _, c := range calls {
			require.Equal(t, command.Refused, c.Reply(t).Outcome)
		}
		require.Equal(t, many, count(m, "EVAL release"))
		require.Equal(t, many, count(m, "EVALSHA release"))
	})
}

func TestAnAcquireThatWasGivenUpBeforeItsNOSCRIPTIsNotSentAgainButItsReleaseIs(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.LoseScripts()
		m.ForgetLog()
		only(t, m).HoldReplies()
		acquire := acquiring("A", longTTL, "k", "l").On(n)
		kept := acquiring("B", longTTL, "m", "n").On(n)
		synctest.Wait()
		require.False(t, acquire.Cancel(), "sent: an undo is due")
		undo := releasing("A", "k", "l").On(n)
		synctest.Wait()
		only(t, m).Release()

		r := acquire.Reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.False(t, r.NotSent)
		require.ErrorContains(t, r.Err, "NOSCRIPT")
		require.Equal(t, command.Refused, undo.Reply(t).Outcome)
		require.Equal(t, command.Granted, kept.Reply(t).Outcome)
		require.Equal(t, 1, count(m, "EVAL acquire"), "the one that was kept")
		require.Equal(t, 1, count(m, "EVAL release"))
		require.Equal(t, []string{"m", "n"}, m.Keys())
	})
}

func TestAnAcquireThatIsGivenUpBehindItsNOSCRIPTIsUnsent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.LoseScripts()
		only(t, m).HoldReplies()
		acquire := acquiring("A", longTTL, "k", "l").On(n)
		synctest.Wait()
		m.Freeze()
		// The text is written now, and blocks the writer. The acquire waits behind it for its
		// second turn.
		stuck := stuff(n)
		only(t, m).Release()
		synctest.Wait()
		require.True(t, acquire.Pending())
		require.True(t, acquire.Cancel(), "nothing was executed, and nothing is under way")
		m.Unfreeze()
		r := acquire.Reply(t)
		requireUnsent(t, r)
		require.ErrorIs(t, r.Err, command.ErrGivenUp)
		stuck.Reply(t)
		require.Empty(t, m.Keys())
	})
}

// The connection ends between NOSCRIPT and the script's text. A command that was not executed is
// sent on the next connection.
func TestAScriptOnItsWayToGoByItsTextOutlivesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.LoseScripts()
		client := only(t, m)
		client.HoldReplies()
		acquire := acquiring("A", longTTL, "k", "l").On(n)
		synctest.Wait()
		m.Freeze()
		stuff(n)
		client.Release()
		synctest.Wait()
		client.Drop()
		m.Unfreeze()
		require.Equal(t, command.Granted, acquire.Reply(t).Outcome)
		require.Equal(t, []string{"k", "l"}, m.Keys())
		require.Equal(t, int64(2), n.Stats().Dials)
	})
}

func TestAScriptThatGoesByItsTextFailsWithItsConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.LoseScripts()
		client := only(t, m)
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd == "EVAL" {
				client.Drop()
			}
			return "", false
		})
		r := acquiring("A", longTTL, "k", "l").On(n).Reply(t)
		require.Equal(t, command.Unknown, r.Outcome)
		require.ErrorIs(t, r.Err, ErrDisconnected)
		m.Hook(nil)
		require.Equal(t, command.Granted, releasing("A", "k", "l").Outcome(t, n), "it was executed")
	})
}

// After a second NOSCRIPT the server cannot keep the script that it was just sent.
func TestAServerThatForgetsAtOnceIsNotQueriedForever(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		asked := 0
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd != "EVALSHA" && cmd != "EVAL" || asked > 100 {
				return "", false
			}
			asked++
			return "NOSCRIPT No matching script. Please use EVAL.", true
		})
		r := releasing("A", "k").On(n).Reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "NOSCRIPT")
		require.Equal(t, 2, asked, "by its hash, and by its text")
	})
}

// A connection loads a script right before its first use, and never again. So a fresh connection
// meets no NOSCRIPT, even on a server that has lost all scripts.
func TestAScriptIsLoadedBeforeItsFirstUseOnAConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for range 2 {
			require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n), "it needs no script")
			require.NotContains(t, allNames(m), "SCRIPT LOAD")
			m.ForgetLog()
			for range 2 {
				require.Equal(t, command.Granted, extending("A", longTTL, "k").Outcome(t, n))
			}
			require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n))
			require.Equal(t, []string{"SCRIPT LOAD", "EVALSHA extend", "EVALSHA extend", "SCRIPT LOAD", "EVALSHA release"}, allNames(m))
			m.FlushScripts()
			only(t, m).Drop()
			synctest.Wait()
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.ForgetLog()
		}
	})
}

// Only what is in flight at SCRIPT FLUSH fails without the right to send scripts by their text, and the next merged call.
func TestScriptsThatWereFlushedAreLoadedAgainOnTheSameConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Deny("EVAL")
		m.Set("k", "A", longTTL)
		require.Equal(t, command.Granted, extending("A", longTTL, "k").Outcome(t, n))
		m.FlushScripts()
		require.Equal(t, command.Failed, extending("A", longTTL, "k").Outcome(t, n))
		require.Equal(t, command.Granted, extending("A", longTTL, "k").Outcome(t, n))
		require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n))
	})
}

// Without the right to load scripts the server answers NOSCRIPT, and gets the text.
func TestScriptsThatMayNotBeLoadedAreSentByTheirText(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Deny("SCRIPT")
		m.Set("k", "A", longTTL)
		for _, want := range [][]string{
			{"SCRIPT LOAD", "EVALSHA extend", "EVAL extend"}, {"SCRIPT LOAD", "EVALSHA extend"}, {"EVALSHA extend"},
		} {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.ForgetLog()
			require.Equal(t, command.Granted, extending("A", longTTL, "k").Outcome(t, n))
			require.Equal(t, want, allNames(m))
		}
	})
}
