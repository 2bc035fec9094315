package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// handler is a log handler that calls a test's function with each line.
type handler func(msg string)

func (handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	h(r.Message)
	return errors.New("a handler's error is nobody's concern")
}

func (h handler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h handler) WithGroup(string) slog.Handler      { return h }

// churn makes the node log: its connection ends, and dials fail.
func churn(t *testing.T, m *fakeredis.Master, n *Node) {
	t.Helper()
	for range 3 {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Stop()
		time.Sleep(time.Second)
		require.NoError(t, m.Restart(true))
		time.Sleep(time.Second)
	}
	require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
	require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n))
}

// docs/dev/hazards.md H105, for the node's own log: locks do not wait for a handler that blocks.
func TestALogHandlerThatBlocksDelaysNothing(t *testing.T) {
	var mu sync.Mutex
	open, inside, lines := make(chan struct{}), 0, 0
	synctest.Test(t, func(t *testing.T) {
		open = make(chan struct{})
		m := fakeredis.New("n1")
		defer m.Close()
		n := opened(t, m, func(c *Config) {
			c.Logger = slog.New(handler(func(string) {
				mu.Lock()
				inside++
				mu.Unlock()
				<-open
				mu.Lock()
				lines++
				mu.Unlock()
			}))
		})
		for range 10 {
			churn(t, m, n)
		}
		require.NoError(t, n.Close(), "not even Close waits")
		synctest.Wait()
		require.Equal(t, 1, inside)
		close(open)
		synctest.Wait()
		require.Equal(t, 1+16, lines, "no more of them wait")
	})
}

func TestALogHandlerThatPanicsHarmsNothing(t *testing.T) {
	lines := make(chan string, 100)
	inBubble(t, func(c *Config) {
		c.Logger = slog.New(handler(func(msg string) {
			lines <- msg
			panic("the handler's own")
		}))
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		churn(t, m, n)
		require.NoError(t, n.Close())
		synctest.Wait()
		require.Greater(t, len(lines), 6, "it is called again")
	})
}

// Close joins the reconnect loops. A handler that is called on one of them would wait for itself.
func TestALogHandlerMayCloseTheNode(t *testing.T) {
	for _, at := range []string{"redlock node: connected", "redlock node: connection ended", "redlock node: dial failed"} {
		synctest.Test(t, func(t *testing.T) {
			m := fakeredis.New("n1")
			defer m.Close()
			var n *Node
			ready, closed := make(chan struct{}), make(chan error, 100)
			n = opened(t, m, func(c *Config) {
				c.Logger = slog.New(handler(func(msg string) {
					if <-ready; msg == at {
						closed <- n.Close()
					}
				}))
			})
			close(ready)
			synctest.Wait()
			m.Stop()
			time.Sleep(time.Second)
			require.NoError(t, <-closed, at)
			require.ErrorIs(t, pinging().On(n).Reply(t).Err, ErrClosed)
			require.NoError(t, n.Close())
		})
	}
}

// answering is an owner of a command that calls a function.
type answering func()

func (f answering) Answer(*command.Command, command.Reply) { f() }

// A command fails because of what the log says, so the log says it first.
func TestTheLogHasTheEndOfAConnectionBeforeWhatItCauses(t *testing.T) {
	var lines chan string
	g := &gated{}
	inBubble(t, func(c *Config) {
		lines = make(chan string, 100)
		g.dial, g.gate = c.Dial, make(chan error)
		c.Dial = g.Dial
		c.Logger = slog.New(handler(func(msg string) { lines <- msg }))
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		before := func(cause func()) (seen []string) {
			t.Helper()
			answered := make(chan struct{})
			c := acquiring("A", longTTL, "k")
			c.To = answering(func() {
				synctest.Wait() // until the node's other goroutines have nothing to do
				for len(lines) > 0 {
					seen = append(seen, <-lines)
				}
				close(answered)
			})
			c.On(n)
			cause()
			<-answered
			return seen
		}
		require.Equal(t, []string{"redlock node: dial failed"}, before(func() { g.gate <- errors.New("no route") }))
		g.gate <- nil
		synctest.Wait()
		<-lines // connected
		m.Freeze()
		require.Equal(t, []string{"redlock node: connection ended"}, before(func() {}))
	})
}

// The server hangs, so dials fail too.
func TestAFailedDialAfterASilentConnectionIsLogged(t *testing.T) {
	var lines chan string
	inBubble(t, func(c *Config) {
		lines = make(chan string, 100)
		c.Logger = slog.New(handler(func(msg string) { lines <- msg }))
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, "redlock node: connected", <-lines)
		m.Freeze()
		acquiring("A", longTTL, "k").On(n)
		require.Equal(t, "redlock node: connection ended", <-lines)
		require.Equal(t, "redlock node: dial failed", <-lines)
		time.Sleep(time.Minute)
		require.Empty(t, lines, "the first of several")
	})
}
