package fakeredis

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// script is what the master was told to do otherwise than Redis. Guarded by
// Master.mu; it outlives a restart.
type script struct {
	hook      func(client int64, cmd string, args []string) (reply string, handled bool)
	replies   map[string]string
	denied    []string
	users     map[string]string
	info      map[string]string
	delay     time.Duration
	databases []int // that some client has selected
}

// Hook calls f with every command that a client sends, before it executes; nil
// takes it away. With handled true the command does not execute and the reply is
// sent: as it is when it starts with a RESP type (+ - : $ *), otherwise as an
// error; an empty one answers nothing.
//
// f runs on the client's goroutine with no lock held: it may call the master,
// also Freeze or HoldReplies for the very command that it sees, but not Stop,
// Restart or Close, which wait for it. Commands of scripts don't pass here.
func (m *Master) Hook(f func(client int64, cmd string, args []string) (reply string, handled bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script.hook = f
}

// FailWith answers a command by a reply in its place, also where a script calls
// it: an error like "LOADING …", or any RESP reply as in Hook. The command is one
// name, or two ("CLIENT KILL"), or "*" for every command that a client sends. An
// empty reply takes it away.
func (m *Master) FailWith(command, reply string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.script.replies == nil {
		m.script.replies = map[string]string{}
	}
	delete(m.script.replies, canonical(command))
	if reply != "" {
		m.script.replies[canonical(command)] = resp(reply)
	}
}

// Deny takes the right to these commands, of one or two names, from all clients:
// they are answered NOPERM. It replaces what was denied before.
func (m *Master) Deny(commands ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script.denied = nil
	for _, c := range commands {
		m.script.denied = append(m.script.denied, canonical(c))
	}
}

// RequireAuth makes clients give a user ("default" for AUTH with a password alone)
// and a password. An empty password takes the user away.
func (m *Master) RequireAuth(user, password string) {
	m.redis.RequireUserAuth(user, password)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.script.users == nil {
		m.script.users = map[string]string{}
	}
	delete(m.script.users, user)
	if password != "" {
		m.script.users[user] = password
	}
}

// SetInfo sets a field of INFO, in whatever section it stands: role, run_id,
// redis_mode, maxmemory_policy, loading, … ROLE follows role and redis_mode. An
// empty value brings the own one back.
func (m *Master) SetInfo(field, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.script.info == nil {
		m.script.info = map[string]string{}
	}
	delete(m.script.info, field)
	if value != "" {
		m.script.info[field] = value
	}
}

// runHook waits for the client's turn and asks the hook; under m.mu, which is
// free while the hook runs. Not ok means that the client has ended.
func (m *Master) runHook(c *Client, name string, args []string) (reply string, handled, ok bool) {
	if !m.ready(c) {
		return "", false, false
	}
	hook := m.script.hook
	if hook == nil {
		return "", false, true
	}
	m.mu.Unlock()
	defer m.mu.Lock()
	reply, handled = hook(c.id, name, args)
	return resp(reply), handled, true
}

// scripted is the reply that was set for a command.
func (s *script) scripted(name string, args []string, nested bool) (string, bool) {
	if reply, ok := s.replies[name]; ok {
		return reply, true
	}
	if reply, ok := s.replies[withSub(name, args)]; ok {
		return reply, true
	}
	reply, ok := s.replies["*"]
	return reply, ok && !nested
}

func (s *script) denies(name string, args []string) bool {
	return slices.Contains(s.denied, name) || slices.Contains(s.denied, withSub(name, args))
}

// selected notes a database that now may hold keys.
func (s *script) selected(number string) int {
	n, _ := strconv.Atoi(number)
	if !slices.Contains(s.databases, n) {
		s.databases = append(s.databases, n)
		slices.Sort(s.databases)
	}
	return n
}

func withSub(name string, args []string) string {
	if len(args) == 0 {
		return name
	}
	return name + " " + strings.ToUpper(args[0])
}

func canonical(command string) string {
	return strings.ToUpper(strings.ReplaceAll(command, "|", " "))
}

// resp completes a reply to what goes over the wire.
func resp(reply string) string {
	if reply == "" {
		return ""
	}
	if !strings.ContainsAny(reply[:1], "+-:$*") {
		reply = "-" + reply
	}
	return strings.TrimSuffix(reply, "\r\n") + "\r\n"
}
