package fakeredis_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func connectLate(t *testing.T, m *fakeredis.Master, by time.Duration) redis.Conn {
	t.Helper()
	conn, err := m.DialLate(by)(t.Context(), "", "")
	require.NoError(t, err)
	c := redis.NewConn(conn, 0, 0)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestALateConnectionsRequestsExecuteLateAndItsRepliesComeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		began := time.Now()
		c := connectLate(t, m, 300*time.Millisecond)
		do(t, c, "PING")
		require.Zero(t, time.Since(began), "the handshake is not late")
		send(t, c, "SET k 1")
		time.Sleep(100 * time.Millisecond)
		send(t, c, "SET k 2", "APPEND k 3")
		require.Equal(t, 300*time.Millisecond, m.Arriving())
		do(t, connect(t, m), "PING")
		require.Equal(t, 100*time.Millisecond, time.Since(began), "others are not late")
		for _, at := range []int{300, 400, 400} {
			_, err := c.Receive()
			require.NoError(t, err)
			require.EqualValues(t, at, time.Since(began).Milliseconds())
		}
		require.Zero(t, m.Arriving())
		require.Equal(t, "23", mustGet(m, "k"))
		do(t, c, "PING")
		require.Equal(t, 700*time.Millisecond, time.Since(began), "all later requests are late")
	})
}

func TestALateRequestExecutesAfterItsClientHasGoneAndNotOnAMasterThatWasStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		for _, stopped := range []bool{false, true} {
			c := connectLate(t, m, time.Second)
			send(t, c, "SET k 1")
			require.NoError(t, c.Close())
			if stopped {
				require.NoError(t, m.Restart(false))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			_, ok := m.Get("k")
			require.NotEqual(t, stopped, ok)
			require.Zero(t, m.Connections())
		}
	})
}

func TestAConnectionThatIsLateByNothingIsAnyOther(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		began := time.Now()
		do(t, connectLate(t, m, 0), "SET", "k", "1")
		require.Zero(t, m.Arriving())
		require.Zero(t, time.Since(began))
	})
}
