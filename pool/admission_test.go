package pool

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// behindAGate has dials wait until open is called, again and again.
func behindAGate(open *func()) func(c *Config) {
	return func(c *Config) {
		gate, dial := make(chan struct{}), c.Dial
		*open = func() { gate <- struct{}{} }
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return dial(ctx, network, address)
		}
	}
}

// Nothing was known of the server when the command was queued.
func TestACommandThatWaitedForADialIsNotSentToAnUnfitServer(t *testing.T) {
	var open func()
	replica := func(m *fakeredis.Master) { m.SetInfo("role", "slave") }
	onMaster(t, replica, behindAGate(&open), func(t *testing.T, m *fakeredis.Master, n *Node) {
		c := acquiring("A", longTTL, "k").On(n)
		synctest.Wait()
		require.True(t, c.Pending())
		open()
		r := c.Reply(t)
		requireUnsent(t, r)
		require.ErrorIs(t, r.Err, command.ErrUnfit)
		require.Zero(t, count(m, "SET"))
	})
}

// The connection before led to another run of the server, with another marker.
func TestAGuardedCommandCarriesTheMarkerOfItsConnection(t *testing.T) {
	var open func()
	onMaster(t, func(*fakeredis.Master) {}, behindAGate(&open), func(t *testing.T, m *fakeredis.Master, n *Node) {
		open()
		admitted(t, m, n)
		require.NoError(t, m.Restart(true))
		synctest.Wait()
		m.ForgetLog()
		c := acquiringUnder("B", "k").On(n)
		synctest.Wait()
		require.True(t, c.Pending())
		open()
		requireQuarantined(t, c.Reply(t), guardTTL)
		sent := 0
		for _, e := range m.Log() {
			if slices.Contains(e.Args, "B") {
				require.Contains(t, strings.Join(e.Args, " "), m.RunID())
				sent++
			}
		}
		require.Equal(t, 1, sent)
	})
}
