package session

import (
	"runtime"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// A connection keeps facts. They must not keep the replies from which they were read.
func TestNothingKeptOfAReplyKeepsTheReply(t *testing.T) {
	const replies = 64
	filler := strings.Repeat("x", 1<<20)
	all := make([]Facts, replies)
	before := liveHeap()
	for i := range all {
		all[i].ReadInfo([]byte("run_id:abc\r\nrole:master\r\nx:"+filler), nil)
		all[i].readMarker([]byte("mark"+filler), nil)
	}
	require.Less(t, liveHeap(), before+4<<20)
	require.Equal(t, "abc", all[0].RunID)
	require.Len(t, all[0].Marker, 2<<10)
}

// Valkey has another name for the mode.
func TestTheModeOfAServerIsReadFromValkeyToo(t *testing.T) {
	for info, mode := range map[string]string{
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:sentinel\r\n":   "sentinel",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:standalone\r\n": "standalone",
		"redis_version:7.0.15\r\nredis_mode:cluster\r\n":                          "cluster",
	} {
		var f Facts
		f.ReadInfo(info, nil)
		require.Equal(t, mode, f.Mode)
	}
}

// A reply that says that the server can't vote ends the dial, also where those behind it are missing. A missing right
// does not.
func TestAStateInWhichAServerCannotVoteEndsTheGreeting(t *testing.T) {
	right, auth := redis.Error("NOPERM no right"), redis.Error("NOAUTH Authentication required.")
	id, info := transport.Reply{Value: []byte("id=7 name=go-redlock db=3")}, transport.Reply{Value: []byte("run_id:abc\r\nrole:master\r\n")}
	for what, c := range map[string]struct {
		replies []transport.Reply
		want    string
	}{
		"no reply":           {nil, ""},
		"all is well":        {[]transport.Reply{id, info, {Err: redis.ErrNil}}, ""},
		"without rights":     {[]transport.Reply{{Err: right}, {Err: right}, {Err: right}}, ""},
		"not authenticated":  {[]transport.Reply{{Err: auth}}, "NOAUTH"},
		"the first counts":   {[]transport.Reply{{Err: auth}, {Err: redis.Error("LOADING x")}}, "NOAUTH"},
		"INFO alone says so": {[]transport.Reply{{Err: right}, {Value: []byte("loading:1\r\n")}}, "LOADING"},
		"busy with a script": {[]transport.Reply{{Err: redis.Error("BUSY x")}, {Err: redis.Error("BUSY x")}}, "BUSY"},
		"only the marker":    {[]transport.Reply{{Err: right}, info, {Err: auth}}, ""},
	} {
		var f Facts
		err := f.Read(c.replies, 2)
		require.Equal(t, c.want, resp.Code(err), what)
		if what == "all is well" {
			require.Equal(t, Facts{Facts: command.Facts{RunID: "abc", Role: "master", Database: 3}, ClientID: 7}, f)
		}
		if what == "without rights" {
			require.Equal(t, 2, f.Database)
			require.Equal(t, "NOPERM no right", f.Unread)
			require.Equal(t, "NOPERM no right", f.MarkerUnread)
		}
	}
	require.Len(t, Questions(true), 3)
	require.Len(t, Questions(false), 2)
}

func TestARunIDIsFoundInWhateverINFOSays(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nport:1\r\n": "abc",
		"run_id:abc": "abc", "run_id:a\x1bc\r\n": `a\x1bc`, "xrun_id:no\nrun_id: abc \n": "abc", "": "", "run_id": "", "run_id:": "",
		"\n\nrun_id:a:b\n:\n": "a:b",
	} {
		var f Facts
		f.ReadInfo(info, nil)
		require.Equal(t, want, f.RunID, "%q", info)
	}
}

// What a server no longer reports is not kept.
func TestAReplyToINFOReplacesTheOneBefore(t *testing.T) {
	f := Facts{Facts: command.Facts{Marker: "2|x", MarkerUnread: "why", Database: 3}}
	f.ReadInfo("run_id:r\r\nrole:slave\r\nslave_read_only:0\r\nmaxmemory:1\r\nmaxmemory_policy:x\r\naof_enabled:1\r\n", nil)
	require.True(t, f.AOF)
	f.ReadInfo("run_id:s\r\n", nil)
	require.Equal(t, command.Facts{RunID: "s", Marker: "2|x", MarkerUnread: "why", Database: 3}, f.Facts)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
