package fakeredis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// answer is the pre-hook of miniredis. It sees the commands of clients and those of scripts. It
// answers commands with a set reply, denied commands, scripts, and commands that miniredis lacks. It
// runs under m.mu.
func (m *Master) answer(p *server.Peer, cmd string, args ...string) bool {
	c := m.running
	if c == nil {
		return false // a command of this package: unsubscribe
	}
	nested := p != c.peer
	switch {
	case m.script.denies(cmd, args):
		p.WriteError(noPermission(cmd, args, nested))
	case m.fails(p, cmd, args, nested):
	case nested && !scriptable(cmd):
		p.WriteError("ERR This Redis command is not allowed from script")
	case !answered(cmd, args):
		return false
	case !nested && len(m.script.users) > 0 && !c.trusted:
		p.WriteError("NOAUTH Authentication required.")
	case cmd == "INFO":
		p.WriteBulk(m.info(args))
	case cmd == "ROLE":
		m.role(p)
	case cmd == "SCRIPT":
		m.scriptCommand(p, args)
	case cmd == "EVAL", cmd == "EVALSHA":
		m.eval(c, cmd, args)
	default:
		m.clientCommand(c, p, args)
	}
	return true
}

// answered reports whether a command is answered here and not by miniredis.
func answered(cmd string, args []string) bool {
	switch cmd {
	case "INFO", "ROLE", "EVAL", "EVALSHA", "SCRIPT":
		return true
	case "CLIENT":
		switch withSub("", args) {
		case " ID", " INFO", " LIST", " KILL":
			return true
		}
	}
	return false
}

// scriptable reports whether a script may call a command. Those that it may not call would change the
// client's connection.
func scriptable(cmd string) bool {
	return !slices.Contains([]string{
		"AUTH", "HELLO", "SELECT", "EVAL", "EVALSHA", "SCRIPT", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH",
		"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE",
	}, cmd)
}

func (m *Master) fails(p *server.Peer, cmd string, args []string, nested bool) bool {
	reply, ok := m.script.scripted(cmd, args, nested)
	if ok {
		p.WriteRaw(reply)
	}
	return ok
}

// noPermission returns the error of Redis 7.
func noPermission(cmd string, args []string, nested bool) string {
	if nested {
		return "ERR The user executing the script can't run this command or subcommand"
	}
	name := strings.ToLower(cmd)
	if cmd == "CLIENT" || cmd == "SCRIPT" {
		name = strings.ToLower(strings.ReplaceAll(withSub(cmd, args), " ", "|"))
	}
	return fmt.Sprintf("NOPERM User default has no permissions to run the '%s' command", name)
}

// role answers ROLE by the role in INFO.
func (m *Master) role(p *server.Peer) {
	switch {
	case m.field("redis_mode", "standalone") == "sentinel":
		p.WriteLen(2)
		p.WriteBulk("sentinel")
		p.WriteLen(0)
	case m.field("role", "master") == "slave":
		p.WriteLen(5)
		p.WriteBulk("slave")
		p.WriteBulk("127.0.0.1")
		p.WriteInt(6379)
		p.WriteBulk("connected")
		p.WriteInt(0)
	default:
		p.WriteLen(3)
		p.WriteBulk("master")
		p.WriteInt(0)
		p.WriteLen(0)
	}
}
