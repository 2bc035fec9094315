package pool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/visit"
)

// closing is a connection of a service whose Close must not be called twice.
type closing struct {
	redis.ConnWithTimeout
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return c.ConnWithTimeout.Close()
}

// redigo does not say that the Close of every Conn may be called twice.
func TestAConnectionOfAWrappedPoolIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		var all []*closing
		dial := func(ctx context.Context) (redis.Conn, error) {
			c, err := m.Dial(ctx, "", "")
			if err != nil {
				return nil, err
			}
			all = append(all, &closing{redis.NewConn(c, 0, 0).(redis.ConnWithTimeout), make(chan struct{})})
			return all[len(all)-1], nil
		}
		n, err := Wrap(&redis.Pool{DialContext: dial}, Config{Name: "n1", Clock: clock.Runtime()})
		require.NoError(t, err)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		servers, err := visit.Servers(t.Context(), n)
		require.NoError(t, err)
		own, err := visit.Dial(t.Context(), servers.All[0]) // as the doctor does
		require.NoError(t, err)
		own.Close()
		m.Stop()
		require.NoError(t, m.Restart(true))
		time.Sleep(time.Second)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.NoError(t, n.Close())
		require.Len(t, all, 3)
		for _, c := range all {
			<-c.closed
		}
	})
}
