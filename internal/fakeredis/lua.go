package fakeredis

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// Scripts run here and not in miniredis. miniredis makes a Lua state for each call, with all
// libraries, and that cost tests half of their processor time.

// compiled is a script as Lua executes it.
type compiled struct {
	hash  string
	proto *lua.FunctionProto
}

// texts has the *compiled of every text that a master of this process has been sent.
var texts sync.Map

func compile(text string) (*compiled, error) {
	if c, ok := texts.Load(text); ok {
		return c.(*compiled), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "user_script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "user_script")
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(text))
	c := &compiled{hex.EncodeToString(sum[:]), proto}
	texts.Store(text, c)
	return c, nil
}

// load compiles a text and returns its script, or nil after it has answered by an error; under m.mu.
func (m *Master) load(p *server.Peer, text string) *compiled {
	s, err := compile(text)
	if err != nil {
		p.WriteError("ERR Error compiling script (new function): " + err.Error())
		return nil
	}
	if m.scripts == nil {
		m.scripts = map[string]*compiled{}
	}
	m.scripts[s.hash] = s
	return s
}

// scriptCommand answers SCRIPT; under m.mu.
func (m *Master) scriptCommand(p *server.Peer, args []string) {
	switch sub := withSub("", args); {
	case sub == " LOAD" && len(args) == 2:
		known := len(m.scripts)
		if s := m.load(p, args[1]); s != nil {
			p.WriteBulk(s.hash)
			if m.losesScripts && len(m.scripts) > known {
				delete(m.scripts, s.hash)
			}
		}
	case sub == " EXISTS" && len(args) > 1:
		p.WriteLen(len(args) - 1)
		for _, hash := range args[1:] {
			known := 0
			if m.scripts[hash] != nil {
				known = 1
			}
			p.WriteInt(known)
		}
	case sub == " FLUSH":
		m.scripts = nil
		p.WriteOK()
	default:
		p.WriteError("ERR unknown subcommand or wrong number of arguments for 'script' command")
	}
}

// eval answers EVAL and EVALSHA; under m.mu.
func (m *Master) eval(c *Client, cmd string, args []string) {
	p := c.peer
	if len(args) < 2 {
		p.WriteError(fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(cmd)))
		return
	}
	keys, err := strconv.Atoi(args[1])
	switch {
	case err != nil:
		p.WriteError("ERR value is not an integer or out of range")
		return
	case keys < 0:
		p.WriteError("ERR Number of keys can't be negative")
		return
	case keys > len(args)-2:
		p.WriteError("ERR Number of keys can't be greater than number of args")
		return
	}
	s := m.scripts[args[0]]
	if cmd == "EVAL" {
		if s = m.load(p, args[0]); s == nil {
			return
		}
	}
	if s == nil {
		p.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	in := anInterpreter()
	in.run(c, s, args[2:2+keys], args[2+keys:])
	in.put()
}

// interpreters has those that run no script. A sync.Pool would forget some: to make a state takes as
// long as dozens of scripts.
var interpreters struct {
	sync.Mutex
	idle []*interpreter
}

func anInterpreter() *interpreter {
	interpreters.Lock()
	defer interpreters.Unlock()
	last := len(interpreters.idle) - 1
	if last < 0 {
		return newInterpreter()
	}
	in := interpreters.idle[last]
	interpreters.idle = interpreters.idle[:last]
	return in
}

func (in *interpreter) put() {
	interpreters.Lock()
	defer interpreters.Unlock()
	interpreters.idle = append(interpreters.idle, in)
}

// interpreter is a Lua state in which scripts run one after the other. A script cannot create a
// global variable, so it leaves nothing to the next one.
type interpreter struct {
	lua    *lua.LState
	master *Master // of the script that runs
	peer   *server.Peer
	reply  bytes.Buffer // what peer was answered
	reader *bufio.Reader
}

func newInterpreter() *interpreter {
	l := lua.NewState(lua.Options{SkipOpenLibs: true, RegistrySize: 1 << 10, RegistryMaxSize: 1 << 16})
	in := &interpreter{lua: l}
	in.peer, in.reader = server.NewPeer(bufio.NewWriter(&in.reply)), bufio.NewReader(&in.reply)
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	globals := l.G.Global
	globals.RawSetString("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return in.call(l, true) },
		"pcall":        func(l *lua.LState) int { return in.call(l, false) },
		"status_reply": func(l *lua.LState) int { return answerOf(l, "ok", l.CheckString(1)) },
		"error_reply":  func(l *lua.LState) int { return answerOf(l, "err", withCode(l.CheckString(1))) },
		"acl_check_cmd": func(l *lua.LState) int { // under the master's mu
			l.Push(lua.LBool(!in.master.script.denies(canonical(l.CheckString(1)), nil)))
			return 1
		},
	}))
	globals.Metatable = l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"__newindex": func(l *lua.LState) int {
			l.RaiseError("Script attempted to create global variable '%s'", l.Get(2).String())
			return 0
		},
		"__index": func(l *lua.LState) int {
			l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.Get(2).String())
			return 0
		},
	})
	return in
}

// run runs a script for a client and answers it; under the master's mu.
func (in *interpreter) run(c *Client, s *compiled, keys, args []string) {
	l := in.lua
	in.master, in.peer.Ctx = c.master, c.peer.Ctx // the client's database and rights
	l.G.Global.RawSetString("KEYS", listOf(l, keys))
	l.G.Global.RawSetString("ARGV", listOf(l, args))
	l.Push(l.NewFunctionFromProto(s.proto))
	if err := l.PCall(0, 1, nil); err != nil {
		c.peer.WriteError(scriptError(err, s.hash))
	} else {
		writeValue(c.peer, l.Get(-1))
	}
	l.SetTop(0)
	in.master, in.peer.Ctx = nil, nil
}

// call is redis.call, and redis.pcall if it does not raise errors.
func (in *interpreter) call(l *lua.LState, raises bool) int {
	words := make([]string, l.GetTop())
	for i := range words {
		switch v := l.Get(i + 1); v.Type() {
		case lua.LTString, lua.LTNumber:
			words[i] = v.String()
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(words) == 0 {
		l.RaiseError("Please specify at least one argument for this redis lib call")
	}
	in.reply.Reset()
	in.reader.Reset(&in.reply)
	in.master.redis.Server().Dispatch(in.peer, words)
	in.peer.Flush()
	v, err := server.ParseReply(in.reader)
	switch {
	case err != nil && raises:
		l.Error(lua.LString(err.Error()), 1)
	case err != nil:
		return answerOf(l, "err", err.Error())
	}
	l.Push(valueOf(l, v))
	return 1
}

// answerOf pushes a table with one field: an error or a status.
func answerOf(l *lua.LState, field, text string) int {
	t := l.NewTable()
	t.RawSetString(field, lua.LString(text))
	l.Push(t)
	return 1
}

// withCode returns the text of an error with the code that it has to begin with.
func withCode(text string) string {
	text = strings.TrimPrefix(text, "-")
	if !strings.Contains(text, " ") {
		return "ERR " + text
	}
	return text
}

func listOf(l *lua.LState, all []string) *lua.LTable {
	t := l.CreateTable(len(all), 0)
	for _, s := range all {
		t.Append(lua.LString(s))
	}
	return t
}

// valueOf converts a reply to Lua.
func valueOf(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case int:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case server.Simple:
		answerOf(l, "ok", string(r))
		v := l.Get(-1)
		l.Pop(1)
		return v
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, v := range r {
			t.Append(valueOf(l, v))
		}
		return t
	}
	return lua.LFalse // null
}

// writeValue answers what a script returned.
func writeValue(p *server.Peer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LNumber:
		p.WriteInt(int(v))
	case lua.LString:
		p.WriteBulk(string(v))
	case *lua.LTable:
		writeTable(p, v)
	default:
		if v == lua.LTrue {
			p.WriteInt(1)
		} else {
			p.WriteNull()
		}
	}
}

func writeTable(p *server.Peer, t *lua.LTable) {
	if text := t.RawGetString("err"); text != lua.LNil {
		p.WriteError(text.String())
		return
	}
	if text := t.RawGetString("ok"); text != lua.LNil {
		p.WriteInline(text.String())
		return
	}
	n := 0
	for t.RawGetInt(n+1) != lua.LNil {
		n++
	}
	p.WriteLen(n)
	for i := range n {
		writeValue(p, t.RawGetInt(i+1))
	}
}

// luaError matches the message of an error that a script raised.
var luaError = regexp.MustCompile(`^user_script:(\d+): ((?s).*)$`)

// coded matches a message that begins with an error code.
var coded = regexp.MustCompile(`^[A-Z]+ `)

// scriptError gives a script's error the form that it has since Redis 7: first the code, then the
// script's hash and line.
func scriptError(err error, hash string) string {
	text := err.Error()
	if e := (*lua.ApiError)(nil); errors.As(err, &e) {
		text = e.Object.String()
	}
	found := luaError.FindStringSubmatch(text)
	if found == nil {
		return "ERR " + text
	}
	line, text := found[1], found[2]
	if !coded.MatchString(text) {
		text = fmt.Sprintf("ERR user_script:%s: %s", line, text)
	}
	return fmt.Sprintf("%s script: %s, on @user_script:%s.", text, hash, line)
}
