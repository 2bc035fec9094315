package redlock

import (
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// Open refuses invalid URLs and settings before it dials any node. Its error shows no password.
func TestOpenRefusesWhatIsWrongBeforeItDials(t *testing.T) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	require.NoError(t, err)
	var accepted atomic.Int32
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = c.Close()
		}
	}()
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	var many []string // so many that the first is dialled before the last is made
	for i := range 63 {
		many = append(many, fmt.Sprintf("redis://127.0.0.%d:%s", i+1, port))
	}
	good := many[0]
	for _, c := range []struct {
		urls  []string
		opts  []Option
		words []string
	}{
		{nil, nil, []string{"no nodes"}},
		{[]string{good, good}, nil, []string{"127.0.0.1:" + port, "twice"}},
		{slices.Concat(many, []string{good}), nil, []string{"127.0.0.1:" + port, "twice"}},
		{slices.Concat(many, []string{"redis://x:1", "redis://x:2"}), nil, []string{"65 nodes, at most 64"}},
		{slices.Concat(many, []string{"redis://x:0"}), nil, []string{"port"}},
		{[]string{good, good + "/0"}, nil, []string{"twice"}},
		{[]string{good + "?name=a", good + "?name=b"}, nil, []string{"node b", "twice"}},
		{[]string{good + "?name=a", "redis://127.0.0.1:1?name=a"}, nil, []string{"node a", "twice"}},
		{[]string{good, "http://:hunter2@x"}, nil, []string{"scheme"}},
		{[]string{good, "redis://:hunter2@x:port"}, nil, []string{"URL"}},
		{[]string{good, "redis://:hunter2@x:1/two"}, nil, []string{"URL"}},
		{[]string{good, ""}, nil, []string{"URL"}},
		{[]string{good, "redis://:hunter2@x?hard_timeout=-1s"}, nil, []string{"HardTimeout", "1ms"}},
		{many, []Option{WithMaxTTL(-1)}, []string{"WithMaxTTL"}},
		{many, []Option{WithClock(nil)}, []string{"WithClock"}},
		{many, []Option{WithUnsafeNodes("nobody")}, []string{"WithUnsafeNodes", "nobody", "127.0.0.1:" + port + "/0"}},
	} {
		_, err := Open(c.urls, c.opts...)
		refuses(t, err, c.words...)
		require.NotContains(t, err.Error(), "hunter2")
	}
	c, err := net.Dial("tcp", "127.0.0.1:"+port) // this connection follows all that were dialled before
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.EqualValues(t, 1, accepted.Load())
}

// A node that is down does not make Open fail. The nodes that Open made end with the Locker.
func TestOpenMakesALockerThatOwnsItsNodes(t *testing.T) {
	var urls []string
	var masters []*fakeredis.Master
	for _, name := range []string{"n1", "n2", "n3"} {
		m, err := fakeredis.Start(name)
		require.NoError(t, err)
		defer m.Close()
		masters, urls = append(masters, m), append(urls, m.URL()+"?name="+name)
	}
	masters[1].Stop()
	l, err := Open(urls, patient)
	require.NoError(t, err)
	k, err := l.TryAcquire(bg, "a", time.Minute)
	require.NoError(t, err)
	require.NoError(t, k.Release(bg))
	require.NoError(t, l.Close(bg))
	require.ErrorIs(t, tried(l), ErrClosed)
	require.Len(t, l.nodes, 3)
	for _, n := range l.nodes {
		require.Zero(t, statsOf(n).Connected)
	}
}
