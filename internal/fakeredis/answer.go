package fakeredis

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// answer is the pre-hook of miniredis. It sees the commands of clients and those of scripts. It
// answers commands with a set reply, denied commands, and commands that miniredis lacks. It runs
// under m.mu, and inside scripts also under miniredis's own lock: there it must not call miniredis.
func (m *Master) answer(p *server.Peer, cmd string, args ...string) bool {
	c := m.running
	if c == nil {
		return false // a command of this package: FlushScripts, unsubscribe
	}
	nested := p != c.peer
	switch {
	case m.again && !nested:
		return false
	case m.script.denies(cmd, args):
		p.WriteError(noPermission(cmd, args, nested))
	case m.fails(p, cmd, args, nested):
	case !answered(cmd, args):
		m.passed = m.passed || !nested
		return false
	case !nested && len(m.script.users) > 0 && !c.trusted:
		p.WriteError("NOAUTH Authentication required.")
	case cmd == "INFO":
		p.WriteBulk(m.info(args, nested))
	case cmd == "ROLE":
		m.role(p)
	case cmd == "SCRIPT":
		return m.load(p, args)
	default:
		m.clientCommand(c, p, args)
	}
	return true
}

// answered reports whether a command is answered here and not by miniredis.
func answered(cmd string, args []string) bool {
	switch cmd {
	case "INFO", "ROLE":
		return true
	case "CLIENT":
		switch withSub("", args) {
		case " ID", " INFO", " LIST", " KILL":
			return true
		}
	case "SCRIPT":
		return withSub("", args) == " LOAD"
	}
	return false
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

// luaError matches miniredis's report of an error in a script.
var luaError = regexp.MustCompile(`^-ERR Error compiling script \(new function\): (?:<string>)?:(\d+): (.*?)(?: +stack traceback:.*)?\r\n$`)

// coded matches a message that begins with an error code.
var coded = regexp.MustCompile(`^[A-Z]+ `)

// scriptError gives a script's error the form that it has since Redis 7: first the code, then the
// script's hash and line.
func scriptError(reply []byte, args []string) []byte {
	found := luaError.FindSubmatch(reply)
	if found == nil {
		return reply
	}
	line, text := found[1], found[2]
	if !coded.Match(text) {
		text = fmt.Appendf(nil, "ERR user_script:%s: %s", line, text)
	}
	return fmt.Appendf(nil, "-%s script: %s, on @user_script:%s.\r\n", text, hash(args), line)
}

// hash returns the hash in an EVALSHA. It does not compute that of an EVAL's text, because SHA-1 is
// not available everywhere (docs/dev/rules.md rule 27) and no reader uses it.
func hash(args []string) string {
	if len(args) > 0 && len(args[0]) == 40 {
		return args[0]
	}
	return strings.Repeat("0", 40)
}
