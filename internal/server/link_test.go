package server

import (
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// earlyReply is a connection whose server says something before a SET reaches it.
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
	inBubble(t, func(t *testing.T, m *fakeredis.Master, s *Server) {
		conn := s.link.Load().conn
		conn.Redis = &earlyReply{conn.Redis.(redis.ConnWithTimeout), func() { m.Clients()[0].Say("+OK\r\n") }}
		c, got := acquiring("A", "k"), make(answers, 1)
		c.To = got
		require.NoError(t, s.Submit(c, nil))
		require.Equal(t, command.Unknown, (<-got).Outcome)
		require.EqualValues(t, 1, s.Violations.Load())
		require.Empty(t, m.Keys())
	})
}

// The caller of a former master would otherwise send its next command to it as well.
func TestAConnectionToAFormerMasterEndsBeforeItsCallerIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master, s *Server) {
		m.FailWith("SET", "READONLY You can't write against a read only replica.")
		l, ended := s.link.Load(), make(chan bool, 1)
		c := acquiring("A", "k")
		c.To = calling(func(command.Reply) { ended <- l.conn.IsDead() })
		require.NoError(t, s.Submit(c, nil))
		require.True(t, <-ended)
	})
}

// The dial ends when the server has been closed. If the connection were served, a goroutine that
// waits for the one that dials would wait for the life of the connection.
func TestAConnectionThatComesWhenItsServerIsClosedIsNotServed(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master, s *Server) {
		late := New(s.cfg)
		l, err := late.connect(t.Context())
		require.NoError(t, err)
		late.Close()
		served := make(chan error, 1)
		go func() {
			_, err := late.serve(l)
			served <- err
		}()
		synctest.Wait()
		require.Len(t, served, 1)
		require.ErrorIs(t, <-served, ErrClosed)
		require.Equal(t, 1, m.Connections(), "the other server's")
	})
}
