package fakeredis

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// hashes has the hash of every text that a master of this process has loaded. miniredis parses a
// text at each SCRIPT LOAD, even if it has the text. A client that loads two dozen scripts on each
// connection spent two thirds of all work on that.
var hashes sync.Map

// load answers SCRIPT LOAD for a text that has been parsed before; under m.mu.
func (m *Master) load(p *server.Peer, args []string) bool {
	if len(args) != 2 {
		return false
	}
	sha, ok := hashes.Load(args[1])
	if ok {
		m.keep(sha.(string), args[1])
		p.WriteBulk(sha.(string))
	}
	return ok
}

// keep records a text that miniredis may not have yet; under m.mu.
func (m *Master) keep(sha, text string) {
	if m.texts == nil {
		m.texts = map[string]string{}
	}
	m.texts[sha] = text
}

// loaded records the scripts in miniredis's answer to SCRIPT LOAD, and adds to the answer to SCRIPT
// EXISTS those that only this package has; under m.mu.
func (m *Master) loaded(args []string, reply []byte) []byte {
	switch strings.ToUpper(args[0]) {
	case "LOAD":
		if lines := bytes.Fields(reply); reply[0] == '$' && len(args) == 2 {
			hashes.Store(args[1], string(lines[1]))
			m.keep(string(lines[1]), args[1])
		}
	case "EXISTS":
		lines := bytes.SplitAfter(reply, []byte("\n"))
		for i, sha := range args[1:] {
			if _, ok := m.texts[sha]; ok && reply[0] == '*' {
				lines[1+i] = []byte(":1\r\n")
			}
		}
		return slices.Concat(lines...)
	case "FLUSH":
		m.texts = nil
	}
	return reply
}

// byText executes an EVALSHA of a loaded script that miniredis does not have, by the script's text.
// After that miniredis has the script. Under m.mu.
func (m *Master) byText(c *Client, args []string, reply []byte) []byte {
	if !m.passed || len(args) == 0 || !bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
		return reply
	}
	text, ok := m.texts[args[0]]
	if !ok {
		return reply
	}
	c.out.capture()
	m.again = true // the EVALSHA was allowed
	m.redis.Server().Dispatch(c.peer, slices.Concat([]string{"EVAL", text}, args[1:]))
	m.again = false
	c.peer.Flush()
	return c.out.captured()
}
