package pool

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// hostileReplies are what a confused proxy, a wrong service or a hostile server may send: a
// beginning, and a continuation without end.
var hostileReplies = map[string][2]string{
	"a bulk string of 256 TiB":        {"$281474976710656\r\n"},
	"a bulk string of 1 TiB":          {"$1099511627776\r\n"},
	"an array of 2^45":                {"*35184372088832\r\n"},
	"a length that overflows":         {"*18446744073709551617\r\n:1\r\n"},
	"arrays without end":              {"", "*1\r\n"},
	"a line without end":              {"+", "x"},
	"an error without end":            {"-ERR ", "x"},
	"a header without end":            {"$", "0"},
	"an array that is much too long":  {"*16384\r\n", "*16384\r\n:1\r\n"},
	"bulk strings without end":        {"*16384\r\n", "$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n"},
	"a bulk string that does not end": {"$1\r\nabc", "d"},
	"another protocol":                {"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", "<html></html>\r\n"},
}

// tampered is a connection whose peer sends something else once it is armed.
type tampered struct {
	net.Conn
	armed   *atomic.Bool
	stream  [2]string
	pending string
	begun   bool
}

// Read returns what the peer sends until the connection is armed.
func (c *tampered) Read(p []byte) (int, error) {
	if !c.begun {
		n, err := c.Conn.Read(p)
		if err != nil || !c.armed.Load() {
			return n, err
		}
		c.begun, c.pending = true, c.stream[0]
	}
	if c.pending == "" {
		c.pending = c.stream[1]
	}
	if c.pending == "" { // the stream is over, and the peer is silent
		return c.Conn.Read(p)
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

// tampering returns a dial function whose connections send stream once armed.
func tampering(m *fakeredis.Master, armed *atomic.Bool, stream [2]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := m.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &tampered{Conn: c, armed: armed, stream: stream}, nil
	}
}

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAHostileReplyEndsItsConnectionAndNothingElse(t *testing.T) {
	for name, stream := range hostileReplies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := fakeredis.New("n1")
				defer m.Close()
				var armed atomic.Bool
				cfg := configFor(m)
				cfg.Dial = tampering(m, &armed, stream)
				n, err := Open(cfg)
				require.NoError(t, err)
				defer n.Close()
				require.Equal(t, command.Granted, pinging().Outcome(t, n))
				armed.Store(true)
				require.Less(t, allocated(func() {
					r := pinging().On(n).Reply(t)
					require.Equal(t, command.Unknown, r.Outcome)
					require.ErrorIs(t, r.Err, ErrDisconnected)
					time.Sleep(time.Second) // dials receive it in their handshake
					synctest.Wait()
				}), uint64(64<<20))
				require.Greater(t, n.Stats().DialFailures, int64(0))
				armed.Store(false)
				time.Sleep(10 * time.Second)
				require.Equal(t, command.Granted, pinging().Outcome(t, n))
			})
		})
	}
}

// Whole replies within the limits pass, in pieces of any size.
func TestAReplyOfManyPartsIsOne(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		keys := make([]string, 1024)
		for i := range keys {
			keys[i] = strings.Repeat("k", i%100+1) + string(rune('a'+i%26)) + time.Duration(i).String()
		}
		require.Equal(t, command.Granted, acquiring("token", longTTL, keys...).Outcome(t, n))
		r := inspecting(keys...).On(n).Reply(t)
		require.Equal(t, command.Granted, r.Outcome)
		require.Len(t, r.KeyStates, len(keys))
	})
}

// A reply without a command is timed from its first byte on.
func TestAReplyThatBeginsOnAnIdleConnectionMustEnd(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		time.Sleep(n.cfg.HardTimeout / 2) // no answer is due any more
		only(t, m).Say("+half a li")
		time.Sleep(n.cfg.HardTimeout - time.Millisecond)
		require.Equal(t, 1, n.Stats().Connected)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Zero(t, n.Stats().Connected)
		time.Sleep(time.Second) // the dial
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}

func TestAnOversizedMessageEndsTheSubscriptionOnly(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		heard := make(diary, 100)
		s := voterOf(n).Subscribe(heard)
		defer s.Close()
		s.Add("a")
		require.Equal(t, "subscribed a", <-heard)
		dials := n.Stats().Dials
		publish(t, m, "a", strings.Repeat("x", transport.ReplyLimits.Bulk+1))
		require.Equal(t, "down", <-heard)
		require.Equal(t, "subscribed a", <-heard)
		require.Equal(t, dials, n.Stats().Dials, "the pipelined connection stays")
		publish(t, m, "a", "1")
		require.Equal(t, "a: 1", <-heard)
	})
}

// A server that keeps sending such messages is dialled at longer and longer intervals.
func TestASubscriptionThatViolatesTheLimitsIsDialledMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		cfg := configFor(m)
		var dials atomic.Int64
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := m.Dial(ctx, network, address)
			if dials.Add(1) == 1 || err != nil {
				return c, err // the pipelined connection
			}
			armed := &atomic.Bool{}
			armed.Store(true)
			return &tampered{Conn: c, armed: armed, stream: [2]string{"+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n$1099511627776\r\n"}}, nil
		}
		n, err := Open(cfg)
		require.NoError(t, err)
		defer n.Close()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		s := voterOf(n).Subscribe(make(diary, 1000))
		defer s.Close()
		s.Add("a")
		time.Sleep(10 * time.Minute)
		require.Less(t, dials.Load(), int64(60))
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}
