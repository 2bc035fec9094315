package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// tracedMaster is a master's view of the trace. It is a fakeredis.Observer.
type tracedMaster struct {
	*trace
	node int
}

// execution is a command of a round that a master has executed. The master does not know the round.
type execution struct {
	node      int
	op, token string // an inspection does not name the token
	names     []string
	ttl       time.Duration
	number    int64  // the fence that is confirmed
	seen      string // by an inspection
	outcome   string // of an inspection: empty until the token is known
	round     *tracedRound
}

// like reports whether the execution may be of the round.
func (x *tracedRound) like(e *execution) bool {
	same := e.op == x.op && e.ttl == x.ttl && e.number == x.number && x.executed[e.node] == nil
	return same && (e.token == x.token || e.op == "check" && slices.Equal(e.names, x.names))
}

// guessRoundLocked finds the round of an execution that no client has read the answer of. An inspection has had no
// effect then, and is left out.
func (t *trace) guessRoundLocked(e *execution) {
	if e.round != nil || e.op == "check" {
		return
	}
	for _, x := range t.rounds {
		if x.like(e) && slices.Contains(t.executions[x.from:], e) {
			e.round, x.executed[e.node] = x, e
			return
		}
	}
}

// line returns the line of an execution. One that no round can have is the line of a round that does not exist.
func (e *execution) line() string {
	switch {
	case e.round != nil:
		return fmt.Sprintf("exec %d %s %s", e.node, e.round.name, e.outcome)
	case e.op == "check":
		return ""
	}
	return fmt.Sprintf("exec %d no-round-of-%s %s", e.node, e.token, e.outcome)
}

// Executed records a command that changes keys or whose answer may be a vote. An error means that nothing was executed,
// but for the one by which a script says that the marker differs.
func (m *tracedMaster) Executed(cmd string, args []string, reply any, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cmd == "SET" {
		e := &execution{op: "acquire", token: args[1], ttl: inMilliseconds(args[4]), outcome: "refused"}
		if reply != nil {
			e.outcome = "granted"
		}
		m.execLocked(e)
		return
	}
	script := scriptOf(cmd, args)
	unmarked := err != nil && strings.HasPrefix(err.Error(), "UNMARKED")
	if script == "" || err != nil && !unmarked {
		return
	}
	op, form, _ := strings.Cut(script, "+")
	n, _ := strconv.Atoi(args[1])
	keys, argv := args[2:2+n], args[2+n:]
	if strings.Contains(form, "guard") {
		keys = keys[:len(keys)-1] // the last one is the marker
	}
	fenced := strings.Contains(form, "fence") || op == "confirm"
	if fenced {
		keys = keys[:len(keys)/2] // behind are the counters
	}
	switch {
	case form == "merge":
		m.releasedTogetherLocked(keys, argv, reply)
	case strings.HasSuffix(form, "merge"):
		m.acquiredTogetherLocked(keys, argv, fenced, reply, unmarked)
	case op == "acquire":
		m.acquiredLocked(argv[0], argv[1], hintOf(fenced, argv, 3), reply, unmarked)
	case op == "extend", op == "repair":
		m.execLocked(&execution{op: op, token: argv[0], ttl: inMilliseconds(argv[1]), outcome: outcome(reply, unmarked)})
	case op == "confirm":
		m.execLocked(&execution{op: op, token: argv[0], number: whole(argv[1]), outcome: outcome(reply, unmarked)})
	case op == "inspect" && !unmarked:
		m.execLocked(&execution{op: "check", names: keys, seen: statesIn(reply.([]any))})
	case op == "release":
		m.addLocked(&traceLine{text: fmt.Sprintf("release %d %s %d", m.node, argv[0], reply.(int)%(len(keys)+1))})
	case op == "shorten":
		m.addLocked(&traceLine{text: fmt.Sprintf("shorten %d %s %s %d", m.node, argv[0], argv[1], reply.(int)%(len(keys)+1))})
	case op == "sweep":
		for i, key := range keys {
			m.addLocked(&traceLine{text: fmt.Sprintf("release %d %s - %s", m.node, argv[i], key)})
		}
	case op == "verify":
		if state := verified(reply.([]any)); state != "" {
			m.addLocked(&traceLine{text: fmt.Sprintf("verify %d %s", m.node, state)})
		}
	}
}

// extendedAgain records that a master has executed the last extension of a token once more, and confirmed it.
func (t *trace) extendedAgain(node int, token string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range slices.Backward(t.rounds) {
		if x.op == "extend" && x.token == token {
			t.addLocked(&traceLine{text: fmt.Sprintf("exec %d %s granted", node, x.name)})
			return
		}
	}
}

func (m *tracedMaster) execLocked(e *execution) {
	e.node = m.node
	m.executions = append(m.executions, e)
	m.addLocked(&traceLine{of: e})
}

// acquiredLocked records a scripted acquire. With fencing the reply is relative to the hint: see command.mergedAcquireScripts.
func (m *tracedMaster) acquiredLocked(token, ttl string, hint int64, reply any, unmarked bool) {
	e := &execution{op: "acquire", token: token, ttl: inMilliseconds(ttl), outcome: outcome(reply, unmarked)}
	if n, _ := reply.(int); hint != 0 && n != 0 {
		if n > 0 {
			n--
		}
		e.outcome = fmt.Sprint("granted ", hint+int64(n))
	}
	m.execLocked(e)
}

// acquiredTogetherLocked records merged acquires. The reply is their number, which is a 1 for each, or one value for each.
func (m *tracedMaster) acquiredTogetherLocked(keys, argv []string, fenced bool, reply any, unmarked bool) {
	words, first := 2, 1
	if fenced {
		words, first = 3, 2
	}
	m.addLocked(&traceLine{text: fmt.Sprintf("merged %d %d", m.node, len(keys))})
	for i := range keys {
		own, each := argv[first+words*i:], reply
		switch v := reply.(type) {
		case int:
			each = 1
		case []any:
			each = v[i]
		}
		m.acquiredLocked(own[0], own[1], hintOf(fenced, own, 2), each, unmarked)
	}
}

// releasedTogetherLocked records merged releases. The reply is their number, or a character for each: see
// command.mergedReleaseScripts.
func (m *tracedMaster) releasedTogetherLocked(keys, argv []string, reply any) {
	m.addLocked(&traceLine{text: fmt.Sprintf("merged %d %d", m.node, len(keys))})
	for i := range keys {
		found := 1
		if each, ok := reply.(string); ok && each[i] == '0' {
			found = 0
		}
		m.addLocked(&traceLine{text: fmt.Sprintf("release %d %s %d", m.node, argv[i], found)})
	}
}

// Deleted records that a key vanishes.
func (m *tracedMaster) Deleted(key string) { m.add("vanish %d %s", m.node, key) }

// DataReplaced records the locks and counters that the master has now.
func (m *tracedMaster) DataReplaced(keys map[string]fakeredis.Saved) {
	text := fmt.Sprint("restart ", m.node)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		k := keys[key]
		switch name, counter := strings.CutPrefix(key, command.FencePrefix); {
		case counter:
			text += fmt.Sprintf(" counter %s %s", name, k.Value)
		case !strings.HasPrefix(key, command.Reserved):
			text += fmt.Sprintf(" key %s %s %d", key, k.Value, k.Expires.UnixMilli())
		}
	}
	m.add("%s", text)
}

// Restarted records that the master starts again with its data.
func (m *tracedMaster) Restarted() { m.add("restart %d kept", m.node) }

// ClockSet records that the clock was set. A key that has expired is gone, also if the clock is set back. It vanishes
// while the clock still shows that it has expired, so before the instant of the step.
func (m *tracedMaster) ClockSet(step time.Duration, rate int64, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if step < 0 && !slices.Contains(keys, name) {
			m.addEarlierLocked(fmt.Sprintf("vanish %d %s", m.node, name))
		}
	}
	m.addLocked(&traceLine{text: fmt.Sprintf("clock node %d %d %d", m.node, step, rate)})
}

// outcome returns the word for the reply of a script that does all or nothing.
func outcome(reply any, unmarked bool) string {
	switch {
	case unmarked:
		return "unfit"
	case reply == 0:
		return "refused"
	case reply == -1:
		return "uncounted"
	}
	return "granted"
}

// statesIn describes what the reply of an inspection shows, and seenIn what a client made of it.
func statesIn(reply []any) string {
	var text strings.Builder
	for i := 0; i < len(reply); i += 3 {
		if value := fmt.Sprint(reply[i+1]); value != "" {
			fmt.Fprintf(&text, "%d %s %d;", i/3, value, reply[i+2])
		}
	}
	return text.String()
}

func seenIn(states []command.KeyState) string {
	var text strings.Builder
	for i, s := range states {
		if s.Value != "" {
			fmt.Fprintf(&text, "%d %s %d;", i, s.Value, s.TTL.Milliseconds())
		}
	}
	return text.String()
}

// verified returns the word for the reply of the script that decides about the marker.
func verified(reply []any) string {
	switch {
	case reply[0] == "ok":
		return "fit"
	case reply[0] == "quarantined" && reply[2] == 1:
		return "began"
	case reply[0] == "quarantined":
		return "waits"
	}
	return ""
}

func hintOf(fenced bool, argv []string, at int) int64 {
	if !fenced {
		return 0
	}
	return whole(argv[at])
}

func whole(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func inMilliseconds(text string) time.Duration { return time.Duration(whole(text)) * time.Millisecond }
