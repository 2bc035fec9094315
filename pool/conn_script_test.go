package pool

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestAnAcquireOfOneKeyIsPlainRedlock(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, acquiring("A", time.Second, "k").Outcome(t, n))
		require.Equal(t, command.Refused, acquiring("B", time.Second, "k").Outcome(t, n))
		require.Equal(t, command.Refused, acquiring("A", time.Second, "k").Outcome(t, n), "its own token is no exception (docs/dev/hazards.md H27)")
		v, _ := m.Get("k")
		require.Equal(t, "A", v)
		require.Equal(t, time.Second, m.TTL("k"))
		time.Sleep(time.Second + time.Millisecond)
		require.Equal(t, command.Granted, acquiring("B", time.Second, "k").Outcome(t, n))
	})
}

func TestAnAcquireOfSeveralKeysTakesAllOrNone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		keys := []string{"a", "b", "c"}
		for _, taken := range keys {
			for name, take := range map[string]func(){
				"by a lock":           func() { m.Set(taken, "other", longTTL) },
				"by a key that stays": func() { m.Set(taken, "other", 0) },
				"by a list":           func() { m.PushList(taken) },
				"by itself":           func() { m.Set(taken, "A", longTTL) },
			} {
				m.FlushAll()
				take()
				require.Equal(t, command.Refused, acquiring("A", time.Second, keys...).Outcome(t, n), name)
				require.Equal(t, []string{taken}, m.Keys(), name)
			}
		}
		m.FlushAll()
		require.Equal(t, command.Granted, acquiring("A", time.Second, keys...).Outcome(t, n))
		for _, k := range keys {
			v, _ := m.Get(k)
			require.Equal(t, "A", v)
			require.Equal(t, time.Second, m.TTL(k))
		}
	})
}

// docs/dev/hazards.md H22, H23: PEXPIRE with zero deletes the key, and a PX of 9e18 makes a lock
// that never ends.
func TestATTLOutOfItsBoundsIsAnErrorAndWritesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for _, ttl := range []time.Duration{
			-time.Hour, -1, 0, time.Microsecond, 9 * time.Millisecond, 10*time.Millisecond - 1,
			mostTTL + time.Millisecond, 1<<63 - 1,
		} {
			m.FlushAll()
			m.Set("k", "A", time.Minute)
			m.Set("l", "A", time.Minute)
			for _, c := range []*call{
				acquiring("A", ttl, "x", "y"), extending("A", ttl, "k"), extending("A", ttl, "k", "l"),
				shortening("A", ttl, "k"), shortening("A", ttl, "k", "l"),
			} {
				r := c.On(n).Reply(t)
				require.Equal(t, command.Failed, r.Outcome, "%v %v", c.Req.Op, ttl)
				require.EqualError(t, r.Err, "ERR redlock: TTL out of bounds")
				require.False(t, r.NotSent)
			}
			require.Equal(t, []string{"k", "l"}, m.Keys())
			require.Equal(t, time.Minute, m.TTL("k"))
			require.Equal(t, time.Minute, m.TTL("l"))
		}
		for _, ttl := range []time.Duration{10 * time.Millisecond, mostTTL} {
			require.Equal(t, command.Granted, acquiring("A"+ttl.String(), ttl, ttl.String(), "2"+ttl.String()).Outcome(t, n))
		}
	})
}

// For one key the server checks no more than Redis does. The client checks the bounds.
func TestRedisItselfRefusesATTLOfZero(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for _, ttl := range []time.Duration{0, time.Microsecond, -time.Second} {
			r := acquiring("A", ttl, "k").On(n).Reply(t)
			require.Equal(t, command.Failed, r.Outcome)
			require.ErrorContains(t, r.Err, "invalid expire time")
			require.Empty(t, m.Keys())
		}
	})
}

func TestAnExtendLengthensAndNeverShortens(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("k", "A", 10*time.Second)
		require.Equal(t, command.Granted, extending("A", 20*time.Second, "k").Outcome(t, n))
		require.Equal(t, 20*time.Second, m.TTL("k"))
		require.Equal(t, command.Granted, extending("A", time.Second, "k").Outcome(t, n), "still ours: granted (docs/dev/hazards.md H13)")
		require.Equal(t, 20*time.Second, m.TTL("k"))

		m.Set("l", "A", time.Second)
		require.Equal(t, command.Granted, extending("A", 5*time.Second, "k", "l").Outcome(t, n))
		require.Equal(t, 20*time.Second, m.TTL("k"))
		require.Equal(t, 5*time.Second, m.TTL("l"))

		m.Set("k", "A", 0)
		require.Equal(t, command.Granted, extending("A", time.Second, "k").Outcome(t, n))
		require.Equal(t, time.Second, m.TTL("k"), "a lock that somebody made to stand for ever gets its end back")
	})
}

func TestAnExtendNeverCreatesAndTakesAllKeysOrNone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Refused, extending("A", time.Second, "k").Outcome(t, n))
		require.Empty(t, m.Keys(), "docs/dev/hazards.md H11")
		for name, other := range map[string]func(){
			"gone":         func() { m.Del("b") },
			"another's":    func() { m.Set("b", "B", time.Minute) },
			"no string":    func() { m.PushList("b") },
			"nearly ours":  func() { m.Set("b", "A ", time.Minute) },
			"an empty one": func() { m.Set("b", "", time.Minute) },
		} {
			for _, keys := range [][]string{{"a", "b", "c"}, {"b", "a", "c"}, {"a", "c", "b"}, {"b"}} {
				m.FlushAll()
				m.Set("a", "A", time.Second)
				m.Set("c", "A", time.Second)
				other()
				before := m.Keys()
				require.Equal(t, command.Refused, extending("A", time.Minute, keys...).Outcome(t, n), name)
				require.Equal(t, before, m.Keys(), name)
				require.Equal(t, time.Second, m.TTL("a"), name)
				require.Equal(t, time.Second, m.TTL("c"), name)
			}
		}
	})
}

func TestAReleaseDeletesOnlyWhatHoldsItsToken(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		set := func() {
			m.FlushAll()
			m.Set("ours", "A", time.Minute)
			m.Set("ours too", "A", 0)
			m.Set("another's", "B", time.Minute)
			m.Set("empty", "", time.Minute)
			m.PushList("list")
		}
		set()
		require.Equal(t, command.Granted, releasing("A", "ours", "ours too").Outcome(t, n))
		require.Equal(t, []string{"another's", "empty", "list"}, m.Keys())

		set()
		require.Equal(t, command.Refused, releasing("A", "list", "ours", "another's", "nothing", "ours too", "empty").Outcome(t, n))
		require.Equal(t, []string{"another's", "empty", "list"}, m.Keys(), "ours go, whatever stands beside them")

		for _, key := range m.Keys() {
			require.Equal(t, command.Refused, releasing("A", key).Outcome(t, n), key)
		}
		require.Equal(t, []string{"another's", "empty", "list"}, m.Keys())
	})
}

func TestAShortenLowersOnlyWhatHoldsItsTokenAndNeverLengthens(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("long", "A", time.Minute)
		m.Set("short", "A", time.Second)
		m.Set("for ever", "A", 0)
		m.Set("another's", "B", time.Minute)
		m.PushList("list")
		require.Equal(t, command.Granted, shortening("A", 5*time.Second, "long", "short", "for ever").Outcome(t, n))
		require.Equal(t, 5*time.Second, m.TTL("long"))
		require.Equal(t, time.Second, m.TTL("short"))
		require.Equal(t, 5*time.Second, m.TTL("for ever"), "a release that leaves it standing for ever would be none")

		require.Equal(t, command.Refused, shortening("A", 10*time.Millisecond, "list", "another's", "long", "nothing").Outcome(t, n))
		require.Equal(t, 10*time.Millisecond, m.TTL("long"))
		require.Equal(t, time.Minute, m.TTL("another's"))
		require.Equal(t, []string{"another's", "for ever", "list", "long", "short"}, m.Keys())
	})
}

func TestAnInspectReportsWhatEachKeyHolds(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("string", "A", 1234*time.Millisecond)
		m.Set("for ever", "B", 0)
		m.Set("empty", "", time.Second)
		m.PushList("list")
		r := inspecting("list", "none", "string", "for ever", "empty").On(n).Reply(t)
		require.Equal(t, command.Granted, r.Outcome)
		require.Len(t, r.KeyStates, 5)
		require.Equal(t, []command.KeyState{
			{ForeignType: "list", TTL: -time.Millisecond},
			{},
			{Value: "A", TTL: 1234 * time.Millisecond},
			{Value: "B", TTL: -time.Millisecond},
			{ForeignType: "string", TTL: time.Second}, // it refuses every acquire, and is not a token
		}, r.KeyStates)
		require.Equal(t, command.Refused, acquiring("C", time.Second, "empty").Outcome(t, n))
	})
}

// docs/dev/hazards.md H29, H45: Lua's numbers are exact only to 2^53. No name or token may be
// parsed as a number, or as part of the protocol.
func TestNamesAndTokensComeBackByteForByte(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		odd := []string{
			"9007199254740993", "18446744073709551617", "1e15", "0x10", "nan", "-0", " 1", "1 ", "inf",
			"a\x00b", "\r\n$3\r\nfoo\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "日本語", "\xff\xfe", "']]; redis.call('FLUSHALL') --[[", "{a}b", "%s",
			strings.Repeat("x", 100_000),
		}
		for i, token := range odd {
			key, second := "k"+odd[len(odd)-1-i], "l"+token
			require.Equal(t, command.Granted, acquiring(token, longTTL, key, second).Outcome(t, n), "%q", token)
			require.Equal(t, command.Granted, extending(token, 2*longTTL, key, second).Outcome(t, n), "%q", token)
			require.Equal(t, command.Refused, extending(token+"0", 2*longTTL, key).Outcome(t, n), "%q", token)
			r := inspecting(key, second).On(n).Reply(t)
			shown := token
			if len(token) > 256 {
				shown = command.LongValue(int64(len(token)))
			}
			require.Equal(t, []command.KeyState{{Value: shown, TTL: 2 * longTTL}, {Value: shown, TTL: 2 * longTTL}}, r.KeyStates)
			require.Equal(t, command.Granted, releasing(token, key, second).Outcome(t, n), "%q", token)
		}
		// These two tokens are the same number.
		m.Set("k", "9007199254740992", longTTL)
		require.Equal(t, command.Refused, releasing("9007199254740993", "k").Outcome(t, n))
		require.Equal(t, command.Refused, releasing("9007199254740992.0", "k").Outcome(t, n))
	})
}

// docs/dev/hazards.md H30: without the right to read, an answer must not lead to the conclusion
// that the lock is not held.
func TestWithoutTheRightToGETNoVoteIsGiven(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("k", "A", time.Minute)
		m.Deny("GET")
		for _, c := range []*call{extending("A", longTTL, "k"), releasing("A", "k"), shortening("A", time.Second, "k")} {
			r := c.On(n).Reply(t)
			require.Equal(t, command.Failed, r.Outcome, "%v", c.Req.Op)
			require.ErrorContains(t, r.Err, "The user executing the script can't run this command")
		}
		require.Equal(t, time.Minute, m.TTL("k"))
	})
}

// A waiter of another process would otherwise wait behind one handover after another.
func TestOthersAreTakenToWaitWithoutTheRightToCountSubscribers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		passing := func() *call {
			return newCall(func(r *command.Request) { command.NewCountingRelease(r, terms("A", []string{"k"}), 0) })
		}
		for _, denied := range []bool{false, true} {
			require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
			if denied {
				m.Deny("PUBSUB")
			}
			r := passing().On(n).Reply(t)
			require.Equal(t, command.Granted, r.Outcome)
			require.Equal(t, denied, r.Others == command.OthersUnknown)
		}
	})
}
