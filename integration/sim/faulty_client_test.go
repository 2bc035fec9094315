package sim

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// faultyClient breaks the client from outside. The code of the client is unchanged, but its
// commands or their replies are replaced.
type faultyClient struct {
	// conn may change the bytes of a connection, and then rename says what becomes of a token.
	conn   func(net.Conn) net.Conn
	rename func(token string) string
	// submit may handle a command instead of the node. It then returns true.
	submit func(n *tap, c *command.Command) bool
	// hook may answer a command instead of a master.
	hook func(w *world, m *fakeredis.Master, cmd string, args []string) (reply string, handled bool)
}

// tap is a node whose commands a faulty client sees first.
type tap struct {
	command.Voter
	world *world
}

// tapped has the world of each node whose commands a faulty client sees first.
var tapped sync.Map

func init() {
	own := command.FromPool
	command.FromPool = func(node any) command.Voter {
		if w, ok := tapped.Load(node); ok {
			return &tap{own(node), w.(*world)}
		}
		return own(node)
	}
}

// Submit passes a command to the faulty client, and then to the node if it is not handled.
func (n *tap) Submit(c, behind *command.Command) error {
	if n.world.plan.faultyClient.submit(n, c) {
		c = nil
	}
	switch {
	case c != nil:
		return n.Voter.Submit(c, behind)
	case behind != nil:
		return n.Voter.Submit(behind, nil)
	}
	return nil
}

// traceExecuted has the trace show that a master has executed a command, as its answer says.
func (w *world) traceExecuted(m *fakeredis.Master, cmd string, args []string, reply any) {
	if w.trace != nil {
		(&tracedMaster{w.trace, slices.Index(w.masters, m)}).Executed(cmd, args, reply, nil)
	}
}

// tokenOf returns the token of an acquire. In a script it is the first argument after the keys.
func tokenOf(cmd string, args []string) string {
	if cmd == "SET" {
		return args[1]
	}
	keys, _ := strconv.Atoi(args[1])
	return args[2+keys]
}

// op returns the operation of a command that is one of the library's scripts, and "" for other
// commands.
func op(cmd string, args []string) string {
	if cmd == "SET" {
		return "acquire"
	}
	name, _, _ := strings.Cut(scriptOf(cmd, args), "+")
	return name
}

// scriptOf returns the name of the library's script that a command calls, or "".
func scriptOf(cmd string, args []string) string {
	if cmd != "EVALSHA" && cmd != "EVAL" {
		return ""
	}
	for _, s := range command.Scripts() {
		if args[0] == s.Hash || args[0] == s.Source {
			return s.Name
		}
	}
	return ""
}

// tokens matches the random part of tokens.
var tokens = regexp.MustCompile(`:[A-Z2-7]{26}`)

// sameToken replaces every token that is sent by the same one.
type sameToken struct{ net.Conn }

func (c sameToken) Write(p []byte) (int, error) {
	return c.Conn.Write(tokens.ReplaceAll(p, []byte(always)))
}

var always = ":" + strings.Repeat("A", 26)

// twice uses one token for all clients and all attempts (docs/dev/hazards.md H3).
var twice = &faultyClient{
	conn:   func(c net.Conn) net.Conn { return sameToken{c} },
	rename: func(token string) string { return tokens.ReplaceAllString(token, always) },
}

// later runs f in the background, before the scenario ends. A command that is still in flight then
// may call it when the background is already waited for. Only the bubble waits for that f.
func (w *world) later(d time.Duration, f func()) {
	run := func() {
		time.Sleep(d)
		f()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending {
		go run()
		return
	}
	w.background.Go(run)
}

// awaitBackground waits for the background.
func (w *world) awaitBackground() {
	w.mu.Lock()
	w.ending = true
	w.mu.Unlock()
	w.background.Wait()
}

// unordered delays the bytes of some acquires until after the undo (H95).
var unordered = &faultyClient{hook: func(w *world, m *fakeredis.Master, cmd string, args []string) (string, bool) {
	if cmd != "SET" || w.chance(0.9) {
		return "", false
	}
	key, token := args[0], args[1]
	w.atTheEnd(func() { // a black hole of the network may keep them for a quarter of an hour
		if _, ok := m.Get(key); !ok {
			m.Set(key, token, w.plan.ttl)
			w.traceExecuted(m, cmd, args, "OK")
		}
	})
	return "WEIRD the answer is lost", true
}}

// release returns a function that submits an undo for the token of a command. The command may be answered
// before the function is called.
func (n *tap) release(c *command.Command) func() {
	t, r := &command.LockArgs{}, &command.Request{}
	t.Set(c.Keys, c.Token())
	command.NewRelease(r, t)
	return func() { _ = n.Voter.Submit(&command.Command{Request: r}, nil) }
}

// tooEarly has nodes undo their grants while the handle is valid (H113).
var tooEarly = &faultyClient{submit: func(n *tap, c *command.Command) bool {
	if w := n.world; c.Op == command.Acquire && w.chance(0.8) {
		w.later(w.some(w.plan.ttl/2), n.release(c))
	}
	return false
}}

// revived has nodes confirm extensions although they do not hold the key any more (H114).
var revived = &faultyClient{hook: func(w *world, m *fakeredis.Master, cmd string, args []string) (string, bool) {
	if op(cmd, args) != "extend" {
		return "", false
	}
	w.traceExecuted(m, cmd, args, 1)
	return ":1", true
}}

// creating has masters execute extensions once more, late, and also if the token does not hold the key any more (H11).
var creating = &faultyClient{hook: func(w *world, m *fakeredis.Master, cmd string, args []string) (string, bool) {
	if op(cmd, args) != "extend" {
		return "", false
	}
	key, token := args[2], tokenIn(args)
	w.later(w.some(4*w.plan.ttl), func() {
		if v, _ := m.Get(key); v != token {
			m.Set(key, token, w.plan.ttl)
			w.trace.extendedAgain(slices.Index(w.masters, m), token)
		}
	})
	return "", false
}}

// counted counts by kind, for many goroutines.
type counted struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counted) add(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[kind] += n
}
