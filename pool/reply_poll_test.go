package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

func polling(key string) *call {
	return newCall(func(r *wire.Request) { wire.NewPoll(r, terms("", []string{key})) })
}

func pollingUnder(f *wire.NodeSet, key string) *call { return under(f, "", wire.NewPoll, key) }

// A poll is one plain command, and tells for how long a key exists, whatever it is.
func TestAPollTellsForHowLongAKeyExists(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("k", "A", 1234*time.Millisecond)
		m.Set("for ever", "B", 0)
		m.PushList("list")
		synctest.Wait()
		m.ForgetLog()
		for key, want := range map[string]wire.Reply{
			"k":        {Outcome: wire.Refused, Left: 1234 * time.Millisecond},
			"for ever": {Outcome: wire.Refused, Left: -time.Millisecond},
			"list":     {Outcome: wire.Refused, Left: -time.Millisecond},
			"none":     {Outcome: wire.Granted},
		} {
			require.Equal(t, want, polling(key).on(n).reply(t), key)
		}
		require.Equal(t, map[string]int{"PTTL": 4}, m.Commands())
		for _, odd := range []string{"+OK", "$-1", ":-3", "$2\r\n12"} {
			m.FailWith("PTTL", odd)
			require.Equal(t, wire.Unknown, polling("k").outcome(t, n), odd)
		}
	})
}

// docs/dev/rules.md rule 16: a poll begins no quarantine, and asks nobody where the node stands.
// Where that is known already, a node that does not vote says so without being asked.
func TestAPollAsksNothingOfTheGuard(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedFleet()
		require.Equal(t, wire.Granted, pollingUnder(f, "k").outcome(t, n))
		require.Zero(t, asksOf(m))
		require.Empty(t, m.Keys())
		requireQuarantined(t, acquiringUnder(f, "A", "k").on(n).reply(t), guardTTL)
		requireQuarantined(t, pollingUnder(f, "k").on(n).reply(t), guardTTL)
		require.Equal(t, 1, m.Commands()["PTTL"])
		time.Sleep(guardTTL + 2*time.Millisecond)
		synctest.Wait()
		require.Equal(t, wire.Granted, pollingUnder(f, "k").outcome(t, n))
	})
}
