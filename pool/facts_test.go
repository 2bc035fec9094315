package pool

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connection keeps facts. They must not keep the replies from which they were read.
func TestNothingKeptOfAReplyKeepsTheReply(t *testing.T) {
	const replies = 64
	filler := strings.Repeat("x", 1<<20)
	all := make([]facts, replies)
	before := liveHeap()
	for i := range all {
		all[i].parse([]byte("run_id:abc\r\nrole:master\r\nx:"+filler), nil)
		all[i].parseMarker([]byte("mark"+filler), nil)
	}
	require.Less(t, liveHeap(), before+4<<20)
	require.Equal(t, "abc", all[0].RunID)
	require.Len(t, all[0].Marker, 2<<10)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
