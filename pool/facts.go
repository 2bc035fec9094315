package pool

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// facts are what a connection knows of its server and of itself before anything
// else is sent on it.
type facts struct {
	wire.Facts
	clientID int64 // 0 where CLIENT ID is denied
}

// parse reads what INFO answered; err is of a server that would not.
func (f *facts) parse(reply any, err error) {
	info, err := redis.String(reply, err)
	if err != nil {
		f.Unread = shownError(err)
		return
	}
	f.Unread = ""
	f.parseServer(info)
	f.parsePersistence(info)
}

func (f *facts) parseServer(info string) {
	f.RunID, f.Version = infoField(info, "run_id"), infoField(info, "redis_version")
	f.Mode, f.Role = infoField(info, "redis_mode"), infoField(info, "role")
	if f.Mode == "" {
		f.Mode = infoField(info, "server_mode") // as Valkey calls it
	}
	f.ReplID2 = infoField(info, "master_replid2")
	f.Writable = f.Role == "slave" && infoField(info, "slave_read_only") == "0"
	f.Backlog = infoField(info, "repl_backlog_active") == "1"
	f.Replicas = infoCount(info, "connected_slaves")
	f.Uptime = time.Duration(infoCount(info, "uptime_in_seconds")) * time.Second
}

func (f *facts) parsePersistence(info string) {
	f.MaxMemory, f.Eviction = infoNumber(info, "maxmemory"), infoField(info, "maxmemory_policy")
	f.AOF = infoField(info, "aof_enabled") == "1"
	f.AOFFails = infoField(info, "aof_last_write_status") == "err"
	f.SnapshotFails = infoField(info, "rdb_last_bgsave_status") == "err"
}

// parseMarker reads what GET answered of the marker.
func (f *facts) parseMarker(reply any, err error) {
	marker, err := markerText(reply, err)
	f.Marker, f.MarkerUnread = marker, ""
	switch {
	case errors.Is(err, redis.ErrNil):
	case err != nil:
		f.MarkerUnread = shownError(err)
	case marker == "":
		f.MarkerUnread = "it is empty"
	}
}

// parseOldMarker reads the reply to EXISTS. If the right is missing, the check is omitted.
func (f *facts) parseOldMarker(reply any, err error) {
	n, err := redis.Int64(reply, err)
	f.OldMarker = err == nil && n != 0
}

// maxMarker is longer than any marker of ours, in bytes: a node's name has up to 255, escaped.
const maxMarker = 2 << 10

// markerText reads a marker. One that is too long is cut, and so is none of ours.
func markerText(reply any, err error) (string, error) {
	text, err := redis.Bytes(reply, err)
	return string(text[:min(len(text), maxMarker)]), err
}

// infoField finds a field in what INFO answers, of which it keeps no more than that.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.Clone(wire.Printable(strings.TrimSpace(v)))
		}
	}
	return ""
}

// infoNumber is a field that is a number; 0 where it is none.
func infoNumber(info, field string) int64 {
	n, _ := strconv.ParseInt(infoField(info, field), 10, 64)
	return n
}

// infoCount is a field that counts; 0 where it is none, and the largest int32 where it is larger.
func infoCount(info, field string) int {
	return int(max(0, min(infoNumber(info, field), math.MaxInt32)))
}

// isLoading tells what INFO does not say by an error: that the server still reads its
// data from disk. Most other commands are answered LOADING then.
func isLoading(info any) bool {
	text, err := redis.String(info, nil)
	return err == nil && infoField(text, "loading") == "1"
}

// database is the one that CLIENT INFO names, or else the one given.
func database(reply any, err error, selected int) int {
	line, err := redis.String(reply, err)
	if err != nil {
		return selected // not known before Redis 6.2, or denied
	}
	for word := range strings.FieldsSeq(line) {
		if v, ok := strings.CutPrefix(word, "db="); ok {
			if n, err := strconv.Atoi(v); err == nil {
				return n
			}
		}
	}
	return selected
}

// maxTime is the latest time that is believed, in Unix seconds, of the year 2242: clocks are
// compared in nanoseconds.
const maxTime = 1 << 33

// serverTime is what TIME answers, in Unix microseconds; 0 where it is denied, or no time.
func serverTime(reply any, err error) int64 {
	parts, err := redis.Int64s(reply, err)
	if err != nil || len(parts) != 2 || parts[0] < 0 || parts[0] > maxTime || parts[1] < 0 || parts[1] >= 1e6 {
		return 0
	}
	return parts[0]*1e6 + parts[1]
}
