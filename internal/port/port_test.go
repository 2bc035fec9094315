package port_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/port"
)

// While a server is down its port is free, and no other process may be given it.
func TestAReservedPortIsGivenToNoOtherProcess(t *testing.T) {
	reserved := func(addr string) bool {
		c, err := net.ListenPacket("udp", addr)
		if err == nil {
			require.NoError(t, c.Close())
		}
		return err != nil
	}
	p, err := port.Reserve()
	require.NoError(t, err)
	l, err := net.Listen("tcp", p.Addr())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.True(t, reserved(p.Addr()))

	taken := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number+1))
	other, err := net.ListenPacket("udp", taken) // as another process does
	if err == nil {
		defer other.Close()
	} // else a process has it that this test does not know
	next, err := port.Reserve()
	require.NoError(t, err)
	defer next.Free()
	assert.NotEqual(t, taken, next.Addr())

	p.Free()
	assert.False(t, reserved(p.Addr()), "another process may reserve it again")
}
