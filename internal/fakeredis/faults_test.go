package fakeredis_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestAFrozenMasterTakesBytesInAndExecutesThemInOrderWhenUnfrozen(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		old := connect(t, m)
		do(t, old, "PING")
		m.ForgetLog()
		m.Freeze()
		c := connect(t, m) // a dial alone proves nothing
		send(t, c, "SET k 1 NX", "SET k 2", "APPEND k 3")
		_, err := redis.ReceiveWithTimeout(c, time.Second)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Empty(t, m.Log())
		require.Empty(t, m.Keys())

		m.Unfreeze()
		synctest.Wait()
		require.Equal(t, []string{"SET", "SET", "APPEND"}, names(m))
		require.Equal(t, "23", mustGet(m, "k"))
		do(t, old, "PING")
	})
}

func TestAPausedMasterExecutesNothingUntilEveryPauseIsOverAndItIsUnfrozen(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		do(t, c, "PING")
		m.ForgetLog()
		one, two := m.Pause(), m.Pause()
		m.Freeze()
		send(t, c, "SET k 1")
		for _, ends := range []func(){one, m.Unfreeze} {
			ends()
			synctest.Wait()
			require.Empty(t, m.Log())
		}
		m.Freeze()
		two()
		synctest.Wait()
		require.Empty(t, m.Log())
		m.Unfreeze()
		synctest.Wait()
		require.Equal(t, []string{"SET"}, names(m))
	})
}

func TestAFrozenMastersBufferIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		m.Freeze()
		conn, err := m.Dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err := conn.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.InDelta(t, 64<<10, n, 8<<10)
	})
}

// The control for H95: without CLIENT KILL the commands of a closed connection execute after an
// undo over another connection.
func TestTheBytesOfAClosedConnectionExecuteBehindAnotherConnectionsUndo(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		other := connect(t, m)
		c := connect(t, m)
		id := do(t, c, "CLIENT", "ID").(int64)
		m.Client(id).HoldRequests()
		send(t, c, "SET lock token NX PX 30000")
		require.NoError(t, c.Close())
		do(t, other, "DEL", "lock")
		require.Empty(t, m.Keys())

		m.Client(id).Release()
		synctest.Wait()
		require.Equal(t, "token", mustGet(m, "lock"), "the ghost")
		require.Nil(t, m.Client(id))
	})
}

func TestAKilledConnectionExecutesNothingMore(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		other := connect(t, m)
		for _, gone := range []bool{false, true} {
			c := connect(t, m)
			id := do(t, c, "CLIENT", "ID").(int64)
			m.Client(id).HoldRequests()
			send(t, c, "SET lock token", "SET lock token", "SET lock token")
			if gone {
				require.NoError(t, c.Close())
			}
			require.Equal(t, int64(1), do(t, other, "CLIENT", "KILL", "ID", id))
			synctest.Wait()
			require.Empty(t, m.Keys())
			require.Nil(t, m.Client(id))
			require.Equal(t, int64(0), do(t, other, "CLIENT", "KILL", "ID", id))
		}
	})
}

func TestAKillThatIsQueuedInAFrozenMasterComesBeforeOrAfterButNeverBetween(t *testing.T) {
	for range 20 {
		inBubble(t, func(t *testing.T, m *fakeredis.Master) {
			c, other := connect(t, m), connect(t, m)
			id := do(t, c, "CLIENT", "ID").(int64)
			m.Freeze()
			send(t, c, "SET lock token")
			require.NoError(t, c.Close())
			send(t, other, fmt.Sprintf("CLIENT KILL ID %d", id), "DEL lock")
			m.Unfreeze()
			synctest.Wait()
			require.Empty(t, m.Keys())
		})
	}
}

func TestADelayHoldsRepliesBackWithoutLimitingTheirNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		m.SetDelay(40 * time.Millisecond)
		began := time.Now()
		for range 1000 {
			require.NoError(t, c.Send("INCR", "n"))
		}
		require.NoError(t, c.Flush())
		synctest.Wait()
		require.Equal(t, "1000", mustGet(m, "n"), "executed at once")
		for i := range 1000 {
			n, err := redis.Int(c.Receive())
			require.NoError(t, err)
			require.Equal(t, i+1, n)
		}
		require.Equal(t, 40*time.Millisecond, time.Since(began))

		m.SetDelay(0)
		do(t, c, "PING")
		require.Equal(t, 40*time.Millisecond, time.Since(began))
	})
}

func TestHeldRepliesBelongToCommandsThatWereExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		client := m.Clients()[0]
		client.HoldReplies()
		send(t, c, "SET k v")
		_, err := redis.ReceiveWithTimeout(c, time.Second)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, "v", mustGet(m, "k"))

		c = connect(t, m)
		client = m.Clients()[0]
		client.HoldReplies()
		send(t, c, "GET k")
		time.AfterFunc(time.Hour, client.Release)
		reply, err := redis.String(c.Receive())
		require.NoError(t, err)
		require.Equal(t, "v", reply)
	})
}

func TestACutReplyEndsTheConnectionInItsMiddle(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		conn, err := m.Dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		synctest.Wait()
		m.Clients()[0].CutReply(3)
		_, err = conn.Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"))
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, "+OK", string(got))
		synctest.Wait()
		require.Equal(t, []string{"k", "n"}, m.Keys(), "what was sent executes")
		require.Zero(t, m.Connections())
	})
}

func TestADroppedConnectionIsResetForTheClientButServedToItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		m.Freeze()
		send(t, c, "SET k v")
		m.Clients()[0].Drop()
		_, err := c.Receive()
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, 1, m.Connections())
		m.Unfreeze()
		synctest.Wait()
		require.Equal(t, "v", mustGet(m, "k"))
		require.Zero(t, m.Connections())
	})
}

func TestADropOverTCPEndsTheClientsReads(t *testing.T) {
	m, err := fakeredis.Start("a")
	require.NoError(t, err)
	defer m.Close()
	conn, err := net.Dial("tcp", m.Addr())
	require.NoError(t, err)
	defer conn.Close()
	require.Eventually(t, func() bool { return m.Connections() == 1 }, time.Minute, time.Millisecond)
	m.Clients()[0].Drop()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestAStopEndsFrozenHeldAndDelayedClientsAlike(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		for range 3 {
			send(t, connect(t, m), "SET k v")
		}
		m.SetDelay(time.Hour)
		m.Clients()[1].HoldRequests()
		m.Clients()[2].HoldReplies()
		m.Freeze()
		began := time.Now()
		m.Stop()
		require.Zero(t, time.Since(began))
		require.Zero(t, m.Connections())
	})
}

func names(m *fakeredis.Master) []string {
	var all []string
	for _, e := range m.Log() {
		all = append(all, e.Name)
	}
	return all
}
