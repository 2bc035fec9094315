package session

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Facts are what the greeting of a connection read: about the server, and about the connection
// itself. Its values are copies, so that they do not keep a whole reply in memory.
type Facts struct {
	command.Facts
	ClientID int64 // 0 if CLIENT INFO and CLIENT ID are denied
}

// Questions returns the calls whose replies Read reads, in this order. The last one asks for the restart guard's
// marker.
func Questions(marker bool) []transport.Call {
	calls := []transport.Call{
		{Name: "CLIENT", Args: []any{"INFO"}},
		{Name: "INFO"}, // all default sections, because INFO accepts several names since Redis 7 only
	}
	if marker {
		calls = append(calls, transport.Call{Name: "GET", Args: []any{guard.Key}})
	}
	return calls
}

// AskID asks for the client ID where CLIENT INFO is denied, or unknown: it exists since Redis 6.2.
var AskID = transport.Call{Name: "CLIENT", Args: []any{"ID"}}

// ReadID reads the reply to AskID.
func (f *Facts) ReadID(r transport.Reply) { f.ClientID, _ = redis.Int64(r.Value, r.Err) }

// Read reads the replies to Questions, of which some may be missing. It returns an error if the server can't vote
// at all in its state.
func (f *Facts) Read(replies []transport.Reply, selected int) (wrong error) {
	for i, r := range replies {
		err := unusable(r.Err)
		switch i {
		case 0:
			f.readClient(r.Value, r.Err, selected)
		case 1:
			if f.ReadInfo(r.Value, r.Err) {
				err = errLoading
			}
		case 2:
			f.readMarker(r.Value, r.Err)
			err = nil // INFO reports all other errors of the server, and better
		}
		wrong = cmp.Or(wrong, err)
	}
	return wrong
}

// ReadInfo reads the reply to INFO, or notes the error of a server that refused it. It starts from the
// values of an earlier reply: Unread must be reset. It reports whether the server still reads its data
// from disk. INFO succeeds meanwhile; most other commands fail with LOADING.
func (f *Facts) ReadInfo(reply any, err error) (loading bool) {
	info, err := redis.Bytes(reply, err)
	if err != nil {
		f.Unread = shownError(err)
		return false
	}
	f.Facts = command.Facts{Marker: f.Marker, MarkerUnread: f.MarkerUnread, Database: f.Database} // INFO has the others
	writable := false
	for name, value := range command.InfoFields(info) {
		switch string(name) {
		case "run_id":
			f.RunID = command.InfoText(value)
		case "redis_version":
			f.Version = command.InfoText(value)
		case "redis_mode", "server_mode": // the name in Valkey
			f.Mode = command.InfoText(value)
		case "role":
			f.Role = command.InfoText(value)
		case "master_replid2":
			f.ReplID2 = command.InfoText(value)
		case "slave_read_only":
			writable = command.InfoText(value) == "0"
		case "maxmemory":
			f.MaxMemory, _ = strconv.ParseInt(command.InfoText(value), 10, 64) // 0 if it is not a number
		case "maxmemory_policy":
			f.Eviction = command.InfoText(value)
		case "aof_enabled":
			f.AOF = command.InfoText(value) == "1"
		case "loading":
			loading = command.InfoText(value) == "1"
		}
	}
	f.Writable = writable && f.Role == "slave" // a master may report slave_read_only as well, and there it says nothing
	return loading
}

// readMarker reads the reply to GET of the marker. A missing marker is no error, but an empty one
// is.
func (f *Facts) readMarker(reply any, err error) {
	text, err := redis.Bytes(reply, err)
	marker := guard.Text(text)
	f.Marker, f.MarkerUnread = marker, ""
	switch {
	// No marker: the node is new, or was emptied.
	case errors.Is(err, redis.ErrNil):
	case err != nil:
		f.MarkerUnread = shownError(err)
	case marker == "":
		f.MarkerUnread = "it is empty"
	}
}

// shownError returns an error as reports show it.
func shownError(err error) string { return oneline.Printable(resp.Clean(err).Error()) }

// readClient reads the reply to CLIENT INFO: one line of words of the form name=value. Without an ID the connection can't
// be killed later (docs/dev/rules.md rule 6). Without a database it is the selected one.
func (f *Facts) readClient(reply any, err error, selected int) {
	f.ClientID, f.Database = 0, selected
	line, err := redis.String(reply, err)
	if err != nil {
		return
	}
	for word := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "id":
			f.ClientID = n
		case name == "db":
			f.Database = int(n)
		}
	}
}

// unusable returns an error if the server can't vote at all in its state, or if err is not one of
// the server. A missing right is no such state: the examination reports it.
func unusable(err error) error {
	if err = resp.Clean(err); err == nil || !resp.IsServerError(err) {
		return err
	}
	switch resp.Code(err) {
	// Such a server answers nothing else either. The dial fails, and is tried again later.
	case "BUSY", "LOADING", "MASTERDOWN", "NOAUTH":
		return err
	}
	return nil
}

// errLoading is the error of a server that reports in INFO that it is loading. A user that may not
// load scripts learns it from no other reply.
var errLoading error = &resp.ServerError{Code: "LOADING", Text: "LOADING the server is still loading its data"}
