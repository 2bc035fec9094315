package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MarkerKey is the key of the marker that every guarded node keeps:
//
//	version|run_id|master_replid2|maxTTL|S|fingerprint|name|state
//
// with maxTTL and S in milliseconds, the name escaped, and the state "ok" or "q" and the
// instant of the node's own TIME, in milliseconds, until which it is quarantined. It
// has no TTL.
const MarkerKey = Reserved + "guard"

// OldMarkerKey is the key of the markers of version 1. No client reads these markers. A node that
// still has the key does not vote: clients of the old version may be using it, and they do
// not see the markers of this version.
const OldMarkerKey = Reserved + "node"

// markerVersion changes with the marker's form.
const markerVersion = "2"

// Guard contains what all guarded clients of the same nodes must agree on. Markers contain it as
// well, so a node refuses a client with other settings (docs/dev/hazards.md H40).
type Guard struct {
	// MaxTTL is the longest TTL of a key, in whole milliseconds. A node that may have forgotten
	// its locks is quarantined for that long.
	MaxTTL time.Duration
	// MaxAge is how much longer the quarantines of a node last, by its name. Only nodes behind
	// Sentinels have an entry. It is set before the guard is used.
	MaxAge map[string]time.Duration
	// Fingerprint identifies the list of nodes.
	Fingerprint string
}

// NewGuard makes the guard of a set of nodes.
func NewGuard(maxTTL time.Duration, nodes []string) *Guard {
	names := slices.Sorted(slices.Values(nodes))
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return &Guard{MaxTTL: maxTTL, Fingerprint: hex.EncodeToString(sum[:8])}
}

// Quarantine returns how long the node of this name does not vote after it may have forgotten its
// locks.
func (g *Guard) Quarantine(node string) time.Duration { return g.MaxTTL + g.MaxAge[node] }

// Proxied replaces the run ID and the replication history if a proxy hides which server a script
// will run on. The script then fills in those of its server.
const Proxied = "?"

// Marker returns the marker that a node of this name must have to vote, if its server has this
// run ID and history.
func (g *Guard) Marker(runID, replID2, node string) string {
	return strings.Join([]string{markerVersion, runID, replID2, g.shared(node), "ok"}, "|")
}

// shared returns the part of a marker that all clients must agree on.
func (g *Guard) shared(node string) string {
	return strings.Join([]string{ms(g.MaxTTL), ms(g.MaxAge[node]), g.Fingerprint, url.QueryEscape(node)}, "|")
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// NewVerifyMarker fills r with a VerifyMarker of the node of this name. It compares the marker
// with what the server itself reports, and decides. over allows a quarantine that has passed by
// the node's clock to end: a client that saw the quarantine begin waits for its own timer as well
// (docs/dev/hazards.md H100).
func NewVerifyMarker(r *Request, g *Guard, node string, over bool) {
	r.reset(VerifyMarker, &LockArgs{}, 0, 0)
	end := "stay"
	if over {
		end = "end"
	}
	r.script = verifyScript
	r.args = append(r.scriptHead(verifyScript, 1), markerKey, markerVersion, g.shared(node), ms(g.Quarantine(node)), end)
}

// NewAdmit fills r with an Admit of the node of this name. It admits only the server, in the run,
// that was found without a marker, and only until an instant of the server's TIME, in Unix
// microseconds. An Admit that is executed late therefore admits nothing that has changed since.
func NewAdmit(r *Request, g *Guard, node string, found Facts, until int64) {
	r.reset(Admit, &LockArgs{}, 0, 0)
	r.script = admitScript
	r.args = append(r.scriptHead(admitScript, 1), markerKey, markerVersion, g.shared(node),
		g.Marker(found.RunID, found.ReplID2, node), until)
}

var markerKey any = MarkerKey

// GuardStatus is the state of a node under the guard.
type GuardStatus uint8

// The states. Only a Marked node votes.
const (
	Unmarked    GuardStatus = iota // unknown, or the node has no marker
	Marked                         // its marker is "ok"
	Quarantined                    // it may have forgotten its locks
	Foreign                        // its marker has other settings, or cannot be read
	NoMaster                       // it is a replica
)

// MarkerStatus is the answer to VerifyMarker and Admit.
type MarkerStatus struct {
	Guard     GuardStatus
	Marker    string        // the whole marker, for Marked and Foreign
	Left      time.Duration // of the quarantine, by the node's clock
	JustBegan bool          // this command began the quarantine
}

// QuarantineError is why a healthy node does not vote under the guard.
type QuarantineError struct {
	Node string
	// Remaining is how much longer the quarantine lasts, from when the error was made.
	Remaining time.Duration
}

// Error returns the rest of the quarantine and its cause.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("quarantined for %v more: it was started, emptied or promoted, or is new", e.Remaining.Round(time.Millisecond))
}

// The parts of scripts that check the marker. The marker is the last of KEYS. The expected marker
// is the last of ARGV, which the node appends. Behind a proxy the script reads which server it
// runs on.
const (
	wanted = `
local want = ARGV[#ARGV]
if string.sub(want, 1, 5) == '` + markerVersion + `|?|?' then
  local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
  local run, replid2 = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid2:(%x+)')
  if string.match(info, 'role:(%a+)') ~= 'master' or not run or not replid2 then
    return redis.error_reply('READONLY redlock: not a master')
  end
  want = '` + markerVersion + `|' .. run .. '|' .. replid2 .. string.sub(want, 6)
end
`
	// marked refuses if the marker is another one.
	marked = wanted + `
if redis.pcall('GET', KEYS[#KEYS]) ~= want then return redis.error_reply('UNMARKED redlock: not the marker expected') end
`
	// compared checks whether the effect counts, and doneMarked returns that.
	compared = wanted + `
local counts = redis.pcall('GET', KEYS[#KEYS]) == want
`
	doneMarked = `
if not counts then return -1 end
return 1
`
)

// server reads which server the script runs on. It never takes that from an argument.
const server = `
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local run, replid2 = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid2:(%x+)')
if string.match(info, 'role:(%a+)') ~= 'master' then return {'replica'} end
if not run or not replid2 then return redis.error_reply('ERR redlock: INFO shows no run_id or master_replid2') end
local head = table.concat({ARGV[1], run, replid2, ARGV[2], ''}, '|')
`

// verify is the second script of docs/dev/rules.md rule 16: if anything differs, it decides.
const verify = server + `
local clock = redis.call('TIME')
local now, full = clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(ARGV[3])
local old = redis.pcall('GET', KEYS[1])
if type(old) == 'table' then
  if string.find(old.err, 'WRONGTYPE', 1, true) then return {'foreign', ''} end
  return old
end
if old then
  local version, r, p, agreed, state = string.match(old, '^(%d+)|(%x+)|(%x+)|(.*)|(%w+)$')
  local till = tonumber(string.match(state or '', '^q(%d+)$') or '')
  if version ~= ARGV[1] or agreed ~= ARGV[2] or not till and state ~= 'ok' then return {'foreign', old} end
  if r == run and p == replid2 then
    if state == 'ok' then return {'ok', old} end
    if till <= now + full then
      if now < till or ARGV[4] ~= 'end' then return {'quarantined', math.max(0, till - now), 0} end
      redis.call('SET', KEYS[1], head .. 'ok')
      return {'ok', head .. 'ok'}
    end
  end
end
redis.call('SET', KEYS[1], head .. 'q' .. string.format('%.0f', now + full))
return {'quarantined', full, 1}
`

// admit marks a node because the operator asks for it (docs/dev/rules.md rule 17). It ends no
// quarantine.
const admit = server + `
local clock = redis.call('TIME')
if redis.call('EXISTS', KEYS[1]) == 1 then return {'marked', redis.call('GET', KEYS[1])} end
if head .. 'ok' ~= ARGV[3] then return redis.error_reply('ERR redlock: not the server that was looked at, or not its run') end
if clock[1] * 1000000 + clock[2] > tonumber(ARGV[4]) then return redis.error_reply('ERR redlock: the question came too late') end
redis.call('SET', KEYS[1], head .. 'ok')
return {'ok', head .. 'ok'}
`
