package fakeredis

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// script is how the master differs from Redis. Guarded by Master.mu. It survives a restart.
type script struct {
	hook      func(client int64, cmd string, args []string) (reply string, handled bool)
	replies   map[string]string
	denied    []string
	users     map[string]string
	info      map[string]string
	delay     time.Duration
	late      func() time.Duration // of the next connection over TCP
	databases []int                // those that some client has selected
}

// Hook calls f with every command of a client before it executes. A nil f removes the hook. If
// handled is true the command does not execute, and the reply is sent instead: unchanged if it
// begins with a RESP type (+ - : $ *), otherwise as an error. An empty reply sends nothing.
// error; an empty one answers nothing.
//
// f runs on the client's goroutine without locks. It may call methods of the master, even Freeze or
// HoldReplies for the command that it sees. It must not call Stop, Restart or Close, which wait for
// it. Commands of scripts do not call f.
func (m *Master) Hook(f func(client int64, cmd string, args []string) (reply string, handled bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script.hook = f
}

// FailWith answers a command with the reply and does not execute it, even if a script calls the
// command. The reply is an error like "LOADING …", or any RESP reply as for Hook. The command is
// one name, or two ("CLIENT KILL"), or "*" for every command of clients. An empty reply removes the
// failure.
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

// Deny denies commands, of one or two names, to all clients: they are answered with NOPERM. It
// replaces the earlier denials.
func (m *Master) Deny(commands ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script.denied = nil
	for _, c := range commands {
		m.script.denied = append(m.script.denied, canonical(c))
	}
}

// RequireAuth requires clients to authenticate with a user and a password. The user is "default"
// for AUTH with only a password. An empty password removes the user.
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

// SetInfo sets a field of INFO in any section: role, run_id, redis_mode, maxmemory_policy, loading,
// … ROLE follows role and redis_mode. An empty value restores the original one.
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

// runHook waits until the client may execute a command, and calls the hook; under m.mu, which is
// unlocked while the hook runs. ok is false if the client has ended.
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

// scripted returns the reply that was set for a command.
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

// selected records a database that may now have keys.
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

// resp completes a reply to its RESP form.
func resp(reply string) string {
	if reply == "" {
		return ""
	}
	if !strings.ContainsAny(reply[:1], "+-:$*") {
		reply = "-" + reply
	}
	return strings.TrimSuffix(reply, "\r\n") + "\r\n"
}
