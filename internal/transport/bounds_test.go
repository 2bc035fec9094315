package transport

import (
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzReplies sends random bytes to a connection as redigo reads it.
func FuzzReplies(f *testing.F) {
	for _, stream := range []string{
		"$281474976710656\r\n", "*35184372088832\r\n", "*18446744073709551617\r\n:1\r\n", strings.Repeat("*1\r\n", 20),
		"+" + strings.Repeat("x", 20), "$" + strings.Repeat("0", 20), "*16384\r\n*16384\r\n:1\r\n", "$1\r\nabcd",
		"HTTP/1.1 400 Bad Request\r\n", "$134217728\r\n", "*8388608\r\n",
	} {
		f.Add([]byte(stream))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		ours, theirs := net.Pipe()
		var other sync.WaitGroup
		defer other.Wait()
		defer ours.Close()
		other.Go(func() {
			_, _ = theirs.Write(stream)
			_ = theirs.Close()
		})
		c := redis.NewConn(newBoundedConn(ours, ReplyLimits), 0, 0)
		if spent := allocated(func() {
			for c.Err() == nil {
				_, _ = c.Receive()
			}
		}); spent > 64<<20 {
			t.Fatalf("%d bytes allocated for %d", spent, len(stream))
		}
		_ = c.Close()
	})
}
