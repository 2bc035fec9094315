package pool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// longTTL is the TTL of locks that must not expire in a test, and mostTTL is the bound in requests.
const (
	longTTL = 30 * time.Second
	mostTTL = time.Hour
)

// inBubble runs a test on a node and its master in virtual time. The bubble fails if a goroutine is
// left.
func inBubble(t *testing.T, change func(c *Config), f func(t *testing.T, m *fakeredis.Master, n *Node)) {
	t.Helper()
	onMaster(t, func(*fakeredis.Master) {}, change, f)
}

// onMaster is inBubble with a master that is prepared before the node is opened.
func onMaster(
	t *testing.T, prepare func(m *fakeredis.Master), change func(c *Config),
	f func(t *testing.T, m *fakeredis.Master, n *Node),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		prepare(m)
		n := opened(t, m, change)
		defer n.Close()
		f(t, m, n)
	})
}

// serverOf returns the only server of a node.
func serverOf(n *Node) *server.Server {
	if sr, ok := n.shape.(*sentinelResolver); ok {
		return sr.Server
	}
	return n.shape.(master).Server
}

func configFor(m *fakeredis.Master) Config {
	return Config{Name: m.Name(), Address: m.Addr(), Dial: m.Dial, Clock: clock.Runtime()}
}

func opened(t *testing.T, m *fakeredis.Master, change func(c *Config)) *Node {
	t.Helper()
	c := configFor(m)
	if change != nil {
		change(&c)
	}
	n, err := Open(c)
	require.NoError(t, err)
	return n
}

// unhurried gives a node in real time timeouts that no pause of the process exceeds.
func unhurried(c Config) Config {
	c.DialTimeout, c.HardTimeout = maxWait, maxWait
	return c
}

// overTCP runs a test on a node and its master on real sockets, in real time.
func overTCP(t *testing.T, change func(c *Config), f func(t *testing.T, m *fakeredis.Master, n *Node)) {
	t.Helper()
	m, err := fakeredis.Start("n1")
	require.NoError(t, err)
	defer m.Close()
	n := opened(t, m, func(c *Config) {
		c.Dial, c.Clock = nil, nil
		*c = unhurried(*c)
		if change != nil {
			change(c)
		}
	})
	defer n.Close()
	settle(t, n)
	f(t, m, n)
}

// settle waits until a node over real sockets is connected.
func settle(t *testing.T, n *Node) {
	t.Helper()
	require.Equal(t, command.Granted, pinging().outcome(t, n))
}

// answers returns how many commands the node has matched to replies.
func answers(n *Node) int64 { return serverOf(n).Answered.Load() }

// call is a command and its answer.
type call struct {
	command.Command
	req      command.Request
	answered chan command.Reply
}

func (c *call) Answer(_ *command.Command, r command.Reply) { c.answered <- r }

func newCall(fill func(r *command.Request)) *call {
	c := &call{}
	fill(&c.req)
	most := 8
	if c.req.Op.Undoes() {
		most = 160 // it may be answered as pending many times
	}
	c.Request, c.To, c.answered = &c.req, c, make(chan command.Reply, most)
	return c
}

func terms(token string, keys []string) *command.LockArgs {
	var t command.LockArgs
	t.Set(keys, token)
	return &t
}

func acquiring(token string, ttl time.Duration, keys ...string) *call {
	return newCall(func(r *command.Request) { command.NewAcquire(r, terms(token, keys), ttl, mostTTL) })
}

func extending(token string, ttl time.Duration, keys ...string) *call {
	return newCall(func(r *command.Request) { command.NewExtend(r, terms(token, keys), ttl, mostTTL, 0) })
}

func releasing(token string, keys ...string) *call {
	return newCall(func(r *command.Request) { command.NewRelease(r, terms(token, keys)) })
}

func shortening(token string, left time.Duration, keys ...string) *call {
	return newCall(func(r *command.Request) { command.NewShorten(r, terms(token, keys), left, mostTTL) })
}

func inspecting(keys ...string) *call {
	return newCall(func(r *command.Request) { command.NewInspect(r, terms("", keys)) })
}

func pinging() *call { return newCall(command.NewPing) }

// aHint is a client's time in 2026.
const aHint = int64(1_790_000_000_000_000)

func counting(token string, keys []string) *command.LockArgs {
	t := terms(token, keys)
	t.SetCounters(false)
	return t
}

func fencing(token string, ttl time.Duration, keys ...string) *call {
	return newCall(func(r *command.Request) {
		command.NewFencedAcquire(r, counting(token, keys), ttl, mostTTL, aHint, time.Second)
	})
}

func confirming(token string, keys ...string) *call {
	return newCall(func(r *command.Request) { command.NewConfirm(r, counting(token, keys), aHint) })
}

// oneOfEach returns a call of each operation: of one key, and of two where that is another command.
func oneOfEach() map[string]*call {
	return map[string]*call{
		"SET":     acquiring("A", time.Second, "k"),
		"acquire": acquiring("A", time.Second, "k", "l"),
		"extend":  extending("A", time.Second, "k"),
		"release": releasing("A", "k", "l"),
		"shorten": shortening("A", time.Second, "k", "l"),
		"inspect": inspecting("k"),
		"ping":    pinging(),
		"fence":   fencing("A", time.Second, "k"),
		"confirm": confirming("A", "k", "l"),
	}
}

// join gives a node to a Locker, also one that has another Locker.
func join(n *Node, m command.Membership) {
	m.Clock = n.cfg.Clock
	if m.Servers == nil {
		m.Servers = command.NewServers()
	}
	n.shared.Leave()
	n.shared.Join(&m)
}

// except says whether a node votes although its server is unfit.
func except(n *Node, unsafe bool) {
	m := *n.shared.Member()
	m.Unsafe = unsafe
	join(n, m)
}

// within gives the command a not-after instant.
func (c *call) within(n *Node, d time.Duration) *call {
	c.req.NotAfter = n.cfg.Clock.Now().Add(d)
	return c
}

// on submits the command. It receives the answer of a node that does not take it as well. A guarded
// command is that of a Locker with the guard.
func (c *call) on(n *Node) *call {
	if c.req.Guarded {
		guarded(n)
	}
	if err := voterOf(n).Submit(&c.Command, nil); err != nil {
		c.Command.Answer(command.Reply{Outcome: command.Failed, NotSent: true, Err: err})
	}
	return c
}

// reply waits for the answer. An answer must never look like the caller's own deadline
// (docs/dev/hazards.md H111).
func (c *call) reply(t *testing.T) command.Reply {
	t.Helper()
	select {
	case r := <-c.answered:
		require.NotErrorIs(t, r.Err, context.DeadlineExceeded)
		require.NotErrorIs(t, r.Err, context.Canceled)
		require.False(t, r.NotSent && r.Outcome != command.Failed, "unsent goes with failed")
		return r
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "no answer", "to %v of %q", c.req.Op, c.req.Token())
		return command.Reply{}
	}
}

// outcome submits the command and waits for its vote.
func (c *call) outcome(t *testing.T, n *Node) command.Outcome {
	t.Helper()
	return c.on(n).reply(t).Outcome
}

func (c *call) pending() bool { return len(c.answered) == 0 }

func requireUnsent(t *testing.T, r command.Reply) {
	t.Helper()
	require.Equal(t, command.Failed, r.Outcome, "%v", r.Err)
	require.True(t, r.NotSent)
	require.Error(t, r.Err)
}

// requireUnfit asserts that the node itself refused, and checks the words of its error.
func requireUnfit(t *testing.T, r command.Reply, words ...string) {
	t.Helper()
	requireUnsent(t, r)
	require.ErrorIs(t, r.Err, command.ErrUnfit)
	for _, w := range words {
		require.ErrorContains(t, r.Err, w)
	}
}

// only is the master's one client.
func only(t *testing.T, m *fakeredis.Master) *fakeredis.Client {
	t.Helper()
	all := m.Clients()
	require.Len(t, all, 1)
	return all[0]
}

// names lists the commands that the master executed since ForgetLog, without the loading of scripts.
func names(m *fakeredis.Master) []string {
	return slices.DeleteFunc(allNames(m), func(name string) bool { return name == "SCRIPT LOAD" })
}

// allNames is names with the loading of scripts.
func allNames(m *fakeredis.Master) []string {
	all := []string{}
	for _, e := range m.Log() {
		all = append(all, strings.TrimSpace(e.Name+" "+sub(e)))
	}
	return all
}

// quiet lists what names does, without the health checks, which a node sends as long as it is open.
func quiet(m *fakeredis.Master) []string {
	return slices.DeleteFunc(names(m), func(name string) bool { return name == "INFO" })
}

// sub returns the subcommand, or the name of the script.
func sub(e fakeredis.Entry) string {
	switch {
	case len(e.Args) == 0:
		return ""
	case e.Name == "CLIENT" || e.Name == "SCRIPT":
		return e.Args[0]
	case e.Name == "EVALSHA" || e.Name == "EVAL":
		for _, s := range command.Scripts() {
			if e.Args[0] == s.Hash || e.Args[0] == s.Source {
				return s.Name
			}
		}
	}
	return ""
}

// count returns how often the log has a command.
func count(m *fakeredis.Master, name string) int {
	n := 0
	for _, have := range names(m) {
		if have == name {
			n++
		}
	}
	return n
}

// raw returns a test's own connection to the master.
func raw(t *testing.T, m *fakeredis.Master) redis.Conn {
	t.Helper()
	conn, err := m.Dial(t.Context(), "", "")
	require.NoError(t, err)
	return redis.NewConn(conn, 0, 0)
}

// fake is a server that a test scripts. It reads commands and writes the function's replies, in
// RESP. An empty reply writes nothing, and an error ends the connection.
type fake func(name string, args []string) (string, error)

var errHangUp = errors.New("hang up")

// wellBehaved answers the handshake and every request as a master would that grants everything.
func wellBehaved(name string, args []string) (string, error) {
	switch name {
	case "PING":
		return "+PONG\r\n", nil
	case "INFO":
		return bulk("redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:" + strings.Repeat("a", 40) + "\r\nrole:master\r\n"), nil
	case "CLIENT":
		return ":1\r\n", nil
	case "SCRIPT":
		return bulk(strings.Repeat("0", 40)), nil
	case "EVALSHA":
		for _, s := range command.Scripts() {
			if s.Hash == args[0] && s.Name == "inspect" {
				keys, _ := strconv.Atoi(args[1])
				return fmt.Sprintf("*%d\r\n", 3*keys) + strings.Repeat("+none\r\n$0\r\n\r\n:-2\r\n", keys), nil
			}
			if s.Hash == args[0] && s.Name == "release" {
				return ":" + args[1] + "\r\n", nil
			}
		}
		return ":1\r\n", nil
	}
	return "+OK\r\n", nil
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// serve answers each command at once, before it reads the next.
func (f fake) serve(conn net.Conn) { f.serveAs(conn, false) }

// serveAs with gathering writes as Redis does: when it has nothing left to read.
func (f fake) serveAs(conn net.Conn, gathering bool) {
	defer conn.Close()
	in, out := bufio.NewReaderSize(conn, 16<<10), bufio.NewWriterSize(conn, 16<<10)
	for {
		words, err := readWords(in)
		if err != nil {
			return
		}
		reply, err := f(words[0], words[1:])
		_, _ = out.WriteString(reply)
		if in.Buffered() == 0 || !gathering || err != nil {
			if e := out.Flush(); err != nil || e != nil {
				return
			}
		}
	}
}

// listen serves on a real socket until the test ends.
func (f fake) listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	return accepting(t, network, address, func(conn net.Conn) { f.serveAs(conn, true) })
}

// accepting serves each connection to a real socket on a goroutine of its own. It accepts until the
// test ends, and then waits for those goroutines. Until then the test must have closed the other ends.
func accepting(t *testing.T, network, address string, serve func(conn net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l
}

func readWords(r *bufio.Reader) ([]string, error) {
	n, err := readNumber(r, "*")
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		length, err := readNumber(r, "$")
		if err != nil {
			return nil, err
		}
		p := make([]byte, length+2)
		if _, err := io.ReadFull(r, p); err != nil {
			return nil, err
		}
		words[i] = string(p[:length])
	}
	return words, nil
}

func readNumber(r *bufio.Reader, kind string) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(strings.TrimSpace(line), kind)
	if !ok {
		return 0, errHangUp
	}
	return strconv.Atoi(digits)
}

// In tests undo is the name of a variable.
const (
	sweepPause, sweepRound = undo.SweepPause, undo.SweepRound
	maxSwept, maxLate      = undo.MaxSwept, undo.MaxLate
	maxParked              = undo.MaxParked
	maxRetryDelay          = undo.MaxProbePause
)

// These are constants of package server.
const (
	healthyEvery, unhealthyEvery = 10 * time.Second, time.Second
	maxBatch, minPrune           = 512, 64
	batchThreshold               = 3
)
