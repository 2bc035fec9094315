package fakeredis_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestAListeningMasterExecutesRequestsLateAlsoOfAClientThatHasGone(t *testing.T) {
	m, err := fakeredis.Start("a")
	require.NoError(t, err)
	t.Cleanup(m.Close)
	const by = 200 * time.Millisecond
	delays := []time.Duration{by, 0, 10 * time.Minute}
	m.AcceptLate(func() (next time.Duration) {
		next, delays = delays[0], delays[1:]
		return next
	})
	connect := func() redis.Conn {
		c, err := redis.Dial("tcp", m.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	late, inTime, far := connect(), connect(), connect()
	for _, c := range []redis.Conn{late, inTime, far} {
		do(t, c, "PING") // the handshake is not late
	}
	began := time.Now()
	send(t, late, "SET k late")
	require.NoError(t, late.Close())
	do(t, inTime, "PING") // it is not late
	if _, set := m.Get("k"); time.Since(began) < by {
		require.False(t, set)
	}
	require.Eventually(t, func() bool { return m.Connections() == 2 }, time.Minute, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), by)
	require.Equal(t, "late", mustGet(m, "k"))

	send(t, far, "SET k never")
	m.Stop() // waits for its goroutines
	require.Equal(t, "late", mustGet(m, "k"))
}
