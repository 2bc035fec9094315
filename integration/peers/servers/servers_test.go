//go:build unix

package servers_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/peers/servers"
)

func TestADelayForwardsEverythingLaterInBothDirections(t *testing.T) {
	const by = 20 * time.Millisecond
	d, err := servers.NewDelay(echo(t), by)
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	c, err := net.Dial("tcp", d.Addr())
	require.NoError(t, err)
	defer c.Close()
	for _, word := range []string{"one", "two", "three"} {
		began := time.Now()
		_, err = io.WriteString(c, word)
		require.NoError(t, err)
		back := make([]byte, len(word))
		_, err = io.ReadFull(c, back)
		require.NoError(t, err)
		assert.Equal(t, word, string(back))
		assert.GreaterOrEqual(t, time.Since(began), 2*by)
	}
}

func TestADelayClosesTheConnectionIfTheServerIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	d, err := servers.NewDelay(l.Addr().String(), 0)
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	c, err := net.Dial("tcp", d.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestABlackholeAnswersNothing(t *testing.T) {
	h, err := servers.NewBlackhole()
	require.NoError(t, err)
	c, err := net.Dial("tcp", h.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "PING\r\n")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
	assert.NoError(t, h.Close())
}

// echo starts a server that sends back what it receives.
func echo(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}
