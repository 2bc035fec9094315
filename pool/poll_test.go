package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func polling(key string) *call {
	return newCall(func(r *command.Request) { command.NewPoll(r, terms("", []string{key})) })
}

func pollingUnder(key string) *call { return under("", command.NewPoll, key) }

// A poll is one plain command. It returns the remaining time of a key of any type.
func TestAPollReportsForHowLongAKeyExists(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("k", "A", 1234*time.Millisecond)
		m.Set("for ever", "B", 0)
		m.PushList("list")
		synctest.Wait()
		m.ForgetLog()
		for key, want := range map[string]command.Reply{
			"k":        {Outcome: command.Refused, Left: 1234 * time.Millisecond},
			"for ever": {Outcome: command.Refused, Left: -time.Millisecond},
			"list":     {Outcome: command.Refused, Left: -time.Millisecond},
			"none":     {Outcome: command.Granted},
		} {
			require.Equal(t, want, polling(key).On(n).Reply(t), key)
		}
		require.Equal(t, map[string]int{"PTTL": 4}, m.Commands())
		for _, odd := range []string{"+OK", "$-1", ":-3", "$2\r\n12"} {
			m.FailWith("PTTL", odd)
			require.Equal(t, command.Unknown, polling("k").Outcome(t, n), odd)
		}
	})
}

// docs/dev/rules.md rule 16: a poll starts no quarantine and verifies no marker. A node that is
// known not to vote answers so by itself.
func TestAPollVerifiesNoMarker(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pollingUnder("k").Outcome(t, n))
		require.Zero(t, queriesOf(m))
		require.Empty(t, m.Keys())
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
		requireQuarantined(t, pollingUnder("k").On(n).Reply(t), guardTTL)
		require.Equal(t, 1, m.Commands()["PTTL"])
		time.Sleep(guardTTL + 2*time.Millisecond)
		synctest.Wait()
		require.Equal(t, command.Granted, pollingUnder("k").Outcome(t, n))
	})
}
