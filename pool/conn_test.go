package pool

import (
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// earlyReply is a connection whose server answers a SET before it was sent.
type earlyReply struct {
	redis.ConnWithTimeout
	say func()
}

func (c *earlyReply) Send(name string, args ...any) error {
	if name == "SET" {
		c.say()
		synctest.Wait() // the reader has read it
	}
	return c.ConnWithTimeout.Send(name, args...)
}

// A server that is out of step would be believed to grant what it has not seen.
func TestAReplyThatComesBeforeItsCommandIsNoAnswer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().outcome(t, n))
		synctest.Wait()
		raw := n.pipeline.link.Load().conn
		raw.Redis = &earlyReply{raw.Redis.(redis.ConnWithTimeout), func() { only(t, m).Say("+OK\r\n") }}
		require.Equal(t, command.Unknown, acquiring("A", longTTL, "k").outcome(t, n))
		require.EqualValues(t, 1, n.Stats().Violations)
		require.Empty(t, m.Keys())
	})
}
