package fakeredis_test

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// inBubble runs a test on a master in a bubble, where time is virtual.
func inBubble(t *testing.T, test func(t *testing.T, m *fakeredis.Master)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("a")
		defer m.Close()
		test(t, m)
	})
}

// connect dials the master. The test may also close the connection.
func connect(t *testing.T, m *fakeredis.Master) redis.Conn {
	t.Helper()
	conn, err := m.Dial(t.Context(), "", "")
	require.NoError(t, err)
	c := redis.NewConn(conn, 0, 0)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do sends a command that must succeed.
func do(t *testing.T, c redis.Conn, name string, args ...any) any {
	t.Helper()
	reply, err := c.Do(name, args...)
	require.NoError(t, err)
	if p, ok := reply.([]byte); ok {
		return string(p)
	}
	return reply
}

// send writes commands without waiting for replies.
func send(t *testing.T, c redis.Conn, commands ...string) {
	t.Helper()
	for _, words := range commands {
		args := redis.Args{}.AddFlat(strings.Fields(words))
		require.NoError(t, c.Send(args[0].(string), args[1:]...))
	}
	require.NoError(t, c.Flush())
}

func info(t *testing.T, c redis.Conn, section, field string) string {
	t.Helper()
	for line := range strings.Lines(do(t, c, "INFO", section).(string)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func TestTTLsFollowTheBubblesTime(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		do(t, c, "SET", "k", "v", "NX", "PX", 1000)
		time.Sleep(999 * time.Millisecond)
		require.Equal(t, int64(1), do(t, c, "PTTL", "k"))
		require.Equal(t, time.Millisecond, m.TTL("k"))
		time.Sleep(time.Millisecond)
		require.Nil(t, do(t, c, "GET", "k"))
		require.Empty(t, m.Keys())
	})
}

func TestAMasterReportsWhatANodeIsCheckedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		time.Sleep(90 * time.Second)
		do(t, c, "SET", "k", "v", "EX", 5)
		do(t, c, "SELECT", 2)
		do(t, c, "SET", "k", "v")
		for section, fields := range map[string]map[string]string{
			"server":      {"run_id": m.RunID(), "redis_mode": "standalone", "redis_version": "7.2.4", "uptime_in_seconds": "90", "tcp_port": "6379"},
			"replication": {"role": "master", "master_replid2": strings.Repeat("0", 40)},
			"memory":      {"maxmemory": "0", "maxmemory_policy": "noeviction"},
			"persistence": {"loading": "0", "aof_enabled": "0"},
			"keyspace":    {"db0": "keys=1,expires=1,avg_ttl=0", "db2": "keys=1,expires=0,avg_ttl=0"},
		} {
			for field, want := range fields {
				require.Equal(t, want, info(t, c, section, field), field)
			}
		}
		require.Len(t, m.RunID(), 40)
		require.Len(t, info(t, c, "replication", "master_replid"), 40)
		require.Empty(t, info(t, c, "replication", "run_id"))
		require.Contains(t, do(t, c, "INFO"), "run_id")
		require.Equal(t, []any{[]byte("master"), int64(0), []any{}}, do(t, c, "ROLE"))
	})
}

func TestAScriptReadsInfoAsAClientDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		reply := do(t, c, "EVAL", "return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')", 0)
		require.Equal(t, m.RunID(), reply)
		reply = do(t, c, "EVAL", "return redis.call('ROLE')[1]", 0)
		require.Equal(t, "master", reply)
		do(t, c, "EVAL", "return redis.call('INFO')", 0) // with keyspace: must not lock twice
	})
}

func TestInfosFieldsCanBeSet(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		m.SetInfo("role", "slave")
		m.SetInfo("maxmemory_policy", "allkeys-lru")
		require.Equal(t, "slave", info(t, c, "replication", "role"))
		require.Equal(t, "allkeys-lru", info(t, c, "memory", "maxmemory_policy"))
		require.Len(t, do(t, c, "ROLE"), 5)
		m.SetInfo("role", "")
		require.Equal(t, "master", info(t, c, "replication", "role"))
		m.SetInfo("redis_mode", "sentinel")
		require.Equal(t, []any{[]byte("sentinel"), []any{}}, do(t, c, "ROLE"))
	})
}

func TestAStoppedMasterEndsItsConnectionsAndRefusesDials(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		do(t, c, "PING")
		m.Stop()
		_, err := c.Do("PING")
		require.Error(t, err)
		require.Zero(t, m.Connections())
		_, err = m.Dial(t.Context(), "", "")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		m.Stop() // a second call is harmless
	})
}

func TestARestartKeepsOrLosesKeysAndAlwaysScripts(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		before := m.RunID()
		c := connect(t, m)
		sha := do(t, c, "SCRIPT", "LOAD", "return 1").(string)
		do(t, c, "SET", "k", "v", "PX", 1000)
		id := do(t, c, "CLIENT", "ID").(int64)

		m.Freeze()
		require.NoError(t, m.Restart(true))
		require.NotEqual(t, before, m.RunID())
		c = connect(t, m)
		require.Equal(t, m.RunID(), info(t, c, "server", "run_id"), "the hook still works, and a new process is not frozen")
		require.Equal(t, "v", do(t, c, "GET", "k"))
		require.Greater(t, do(t, c, "CLIENT", "ID"), id)
		_, err := c.Do("EVALSHA", sha, 0)
		require.ErrorContains(t, err, "NOSCRIPT ")

		m.Stop()
		time.Sleep(time.Second)
		require.NoError(t, m.Restart(true))
		require.Empty(t, m.Keys(), "a TTL continues while the master is down")

		m.Set("k", "v", 0)
		require.NoError(t, m.Restart(false))
		require.Empty(t, m.Keys())
	})
}

func TestADialUnderAnEndedContextFails(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := m.Dial(ctx, "", "")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAPublishedMessageReachesSubscribersUntilTheyAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		conn := connect(t, m)
		sub := redis.PubSubConn{Conn: conn}
		require.NoError(t, sub.Subscribe("ch"))
		require.IsType(t, redis.Subscription{}, sub.Receive())
		pub := connect(t, m)
		require.Equal(t, int64(1), do(t, pub, "PUBLISH", "ch", "hello"))
		require.Equal(t, redis.Message{Channel: "ch", Data: []byte("hello")}, sub.Receive())
		require.NoError(t, sub.Ping("x"))
		require.Equal(t, redis.Pong{Data: "x"}, sub.Receive())
		require.Equal(t, int64(1), do(t, pub, "CLIENT", "KILL", "TYPE", "pubsub"))
		synctest.Wait()
		require.Equal(t, int64(0), do(t, pub, "PUBLISH", "ch", "hello"))
		require.Equal(t, 1, m.Connections())
	})
}

func TestAStartedMasterIsReachedOverTCP(t *testing.T) {
	m, err := fakeredis.Start("a")
	require.NoError(t, err)
	defer m.Close()
	c, err := redis.DialURL(m.URL())
	require.NoError(t, err)
	defer c.Close()
	do(t, c, "SET", "k", "v")
	_, port, err := net.SplitHostPort(m.Addr())
	require.NoError(t, err)
	require.Equal(t, port, info(t, c, "server", "tcp_port"))

	addr := m.Addr()
	require.NoError(t, m.Restart(true))
	require.Equal(t, addr, m.Addr())
	c = connect(t, m)
	require.Equal(t, "v", do(t, c, "GET", "k"))

	m.Freeze()
	frozen := connect(t, m)
	send(t, frozen, "SET k w")
	require.NoError(t, frozen.Close())
	require.Equal(t, "v", mustGet(m, "k"))
	m.Unfreeze()
	require.Eventually(t, func() bool { return mustGet(m, "k") == "w" }, time.Minute, time.Millisecond)

	m.Stop()
	_, err = m.Dial(t.Context(), "", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = net.ListenPacket("udp", addr)
	require.ErrorIs(t, err, syscall.EADDRINUSE, "the port is reserved while the master is stopped")
}

func mustGet(m *fakeredis.Master, key string) string {
	v, _ := m.Get(key)
	return v
}
