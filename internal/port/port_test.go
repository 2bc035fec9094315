package port_test

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
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
	for range 2 {
		runtime.GC() // closes sockets that nothing refers to
	}
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

func TestTwoReservedPortsAreAsFarApartAsTold(t *testing.T) {
	for range 50 {
		a, b, err := port.ReserveTwo(10_000)
		require.NoError(t, err)
		assert.Equal(t, a.Number+10_000, b.Number)
		for _, p := range []port.Port{a, b} {
			_, err = net.ListenPacket("udp", p.Addr())
			require.Error(t, err)
			defer p.Free()
		}
	}
}

// A child has copies of all sockets until it executes its program.
func TestAChildThatStartsDoesNotKeepAPort(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	var children sync.WaitGroup
	defer children.Wait()
	var enough atomic.Bool
	defer enough.Store(true)
	for range 4 {
		children.Go(func() {
			for !enough.Load() {
				assert.NoError(t, exec.Command(self, "-test.run=^$").Run())
			}
		})
	}
	for range 300 {
		p, err := port.Reserve()
		require.NoError(t, err)
		for range 2 {
			l, err := p.Listen()
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
		p.Free()
	}
}
