package redlock_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

// The tests here hold what docs/versions.md lists as frozen. They spell it out: what they expect comes from
// no constant of the code. If one fails, clients of two versions no longer understand each other.

func TestKeysAndTheirValuesAreFrozen(t *testing.T) {
	const random = `[A-Z2-7]{26}`
	for token, owner := range map[string]string{random: "", "anna:" + random: "anna"} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			names, as := []string{"x", "y"}, redlock.WithOwner(owner)
			_, err := s.process(as).AcquireAll(bg, names, time.Minute)
			require.NoError(t, err)
			lock, err := s.process(as, redlock.WithKeyPrefix("app/"), redlock.WithFencing()).AcquireAll(bg, names, time.Minute)
			require.NoError(t, err)
			synctest.Wait()
			for _, m := range s.masters {
				require.Equal(t, []string{"app/x", "app/y", "redlock:fence:app/x", "redlock:fence:app/y", "x", "y"}, m.Keys())
				for _, key := range []string{"x", "y", "app/x", "app/y"} {
					value, _ := m.Get(key)
					require.Regexp(t, "^"+token+"$", value, key)
				}
				for _, key := range []string{"redlock:fence:app/x", "redlock:fence:app/y"} {
					value, _ := m.Get(key)
					require.Equal(t, strconv.FormatInt(lock.Fence(), 10), value, key)
				}
			}
		})
	}
}

func TestTheMarkerIsFrozen(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		// The version, the run, the second replication ID, maxTTL and the Sentinels' max_age in milliseconds, the first
		// 64 bits of the SHA-256 of "n1\x00n2\x00n3", and the node's name.
		head := func(m *fakeredis.Master) string {
			return "2|" + m.RunID() + "|" + strings.Repeat("0", 40) + "|10000|0|fee3c4c04548fc73|" + m.Name() + "|"
		}
		until := strconv.FormatInt(time.Now().Add(10*time.Second).UnixMilli(), 10)
		p := s.process(redlock.WithRestartGuard(10 * time.Second))
		_, err := p.TryAcquire(bg, "x", time.Second)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
		synctest.Wait()
		for _, m := range s.masters {
			marker, _ := m.Get("redlock:guard")
			require.Equal(t, head(m)+"q"+until, marker)
		}
		pass(11 * time.Second)
		p.take("x", time.Second)
		for _, m := range s.masters {
			marker, _ := m.Get("redlock:guard")
			require.Equal(t, head(m)+"ok", marker)
			require.Zero(t, m.TTL("redlock:guard"), "it does not expire")
		}
	})
}

// A later version may have any form behind its number. To delete its marker would let a node vote that forgot.
func TestAMarkerOfAnUnknownVersionIsRefusedAndLeft(t *testing.T) {
	const later = "3|what a later version writes"
	for _, opts := range [][]redlock.Option{nil, {redlock.WithRestartGuard(10 * time.Second)}} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			s.set("redlock:guard", later, 0)
			p := s.process(opts...)
			for range 2 {
				_, err := p.TryAcquire(bg, "x", time.Second)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.ErrorIs(t, err, redlock.ErrGuardMismatch)
				pass(time.Minute)
			}
			for _, m := range s.masters {
				marker, _ := m.Get("redlock:guard")
				require.Equal(t, later, marker)
			}
			require.Empty(t, s.left())
		})
	}
}

// TestAMessageIsReadWithinBounds in internal/waiting holds how messages are read, also those with fewer numbers.
func TestAnnouncementsAreFrozen(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		messages := make(chan string, 16)
		for _, m := range s.masters {
			raw, err := m.Dial(bg, "", "")
			require.NoError(t, err)
			c := redis.PubSubConn{Conn: redis.NewConn(raw, 0, 0)}
			require.NoError(t, c.Subscribe("redlock:free:app/x"))
			require.IsType(t, redis.Subscription{}, c.Receive())
			defer c.Close()
			go func() {
				for m, ok := c.Receive().(redis.Message); ok; m, ok = c.Receive().(redis.Message) {
					messages <- m.Channel + ": " + string(m.Data)
				}
			}()
		}
		// A node without the key announces nothing. A quorum has it.
		announces := func(lock *redlock.Lock, form string) {
			t.Helper()
			require.NoError(t, lock.Release(bg))
			synctest.Wait()
			require.Contains(t, []int{2, 3}, len(messages), "once for each node")
			for len(messages) > 0 {
				require.Regexp(t, "^redlock:free:app/x: "+form+"$", <-messages)
			}
		}
		anna, ben := s.process(redlock.WithKeyPrefix("app/")), s.process(redlock.WithKeyPrefix("app/"))

		// How long the holder had waited, in microseconds, and how many processes listen.
		pass(time.Second) // the clock's 0 counts as unknown
		lock := anna.take("x", time.Minute)
		next := ben.wants(bg, []string{"x"}, time.Minute)
		require.EqualValues(t, 2, s.listeners(1, "redlock:free:app/x"), "this test, and the waiter")
		require.EqualValues(t, 1, s.listeners(1, "redlock:free:app/"), "the waiter")
		pass(3 * time.Second)
		announces(lock, "0 2")
		announces(s.get(next), `3\d{6} 1`)

		// And the milliseconds for which the keys are left, with a minimum hold.
		lock = anna.take("x", time.Minute, redlock.WithMinHold(10*time.Second))
		pass(4 * time.Second)
		announces(lock, `0 1 (6000|5\d{3})`)
	})
}

// listeners returns how many clients listen to a channel of a master.
func (s *system) listeners(n int, channel string) int64 {
	raw, err := s.masters[n-1].Dial(bg, "", "")
	require.NoError(s.t, err)
	conn := redis.NewConn(raw, 0, 0)
	defer conn.Close()
	counts, err := redis.Values(conn.Do("PUBSUB", "NUMSUB", channel))
	require.NoError(s.t, err)
	return counts[1].(int64)
}

// The text of a claim is base64 of {"n":[names],"t":token,"f":fence,"d":TTL in nanoseconds}, with names and token in
// base64 once more. An earlier version may have made it: it is resumed.
func TestClaimsAreFrozen(t *testing.T) {
	const text = "redlock1.eyJuIjpbIllmOD0iLCJhVzUyYjJsalpTODBNZz09Il0sInQiOiJZVzV1WVRwQlFrTkVSVVpIU0VsS1MweE5UazlRVVZKVFZGVldWMWhaV2c9" +
		"PSIsImYiOjk0NjY4NDgwMDAwMDAwNywiZCI6MzAwMDAwMDAwMDB9"
	const token = "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	claim := redlock.Claim{Names: []string{"a\xff", "invoice/42"}, Token: token, Fence: 946684800000007, TTL: 30 * time.Second}
	onMasters(t, 3, func(t *testing.T, s *system) {
		made, err := claim.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(made))
		object, err := json.Marshal(claim)
		require.NoError(t, err)
		require.Equal(t, strconv.Quote(text), string(object))

		var read redlock.Claim
		require.NoError(t, read.UnmarshalText([]byte(text)))
		require.Equal(t, claim, read)
		for _, key := range claim.Names {
			s.set(key, token, 20*time.Second)
		}
		lock, err := s.process(redlock.WithFencing()).Resume(bg, read)
		require.NoError(t, err)
		require.Equal(t, claim.Names, lock.Names())
		require.Equal(t, claim.Fence, lock.Fence())
		require.Equal(t, "7cce381156e50d2f356477be", lock.ID(), "the first 96 bits of the token's SHA-256")
		require.NoError(t, lock.Release(bg))
		require.Empty(t, s.left())
	})
}
