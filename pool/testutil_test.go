package pool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
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
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/undo"
	"github.com/quorumlock/go-redlock/pool/cluster"
)

// What nodetest has, by shorter names.
const (
	longTTL, mostTTL = nodetest.LongTTL, nodetest.MostTTL
	guardTTL         = nodetest.GuardTTL
	aHint            = nodetest.Hint
)

type (
	call  = nodetest.Call
	diary = nodetest.Diary
)

var (
	newCall, terms, oneOfEach             = nodetest.NewCall, nodetest.Terms, nodetest.OneOfEach
	acquiring, extending, releasing       = nodetest.Acquiring, nodetest.Extending, nodetest.Releasing
	shortening, inspecting, pinging       = nodetest.Shortening, nodetest.Inspecting, nodetest.Pinging
	fencing, confirming                   = nodetest.Fencing, nodetest.Confirming
	under, acquiringUnder, extendingUnder = nodetest.Under, nodetest.AcquiringUnder, nodetest.ExtendingUnder
	inspectingUnder, pingingUnder         = nodetest.InspectingUnder, nodetest.PingingUnder
	requireUnsent, requireUnfit           = nodetest.RequireUnsent, nodetest.RequireUnfit
	names, allNames, quiet, count, sub    = nodetest.Names, nodetest.AllNames, nodetest.Quiet, nodetest.Count, nodetest.Sub
	publish, only, others                 = nodetest.Publish, nodetest.Only, nodetest.Others
)

func join(n *Node, m command.Membership) { nodetest.Join(n, m) }
func except(n *Node, unsafe bool)        { nodetest.Except(n, unsafe) }
func guarded(n *Node) *guard.Settings    { return nodetest.Guarded(n) }
func guardSettings() *guard.Settings     { return nodetest.GuardSettings() }

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

// inCluster runs a test in a bubble on a node that is a Cluster of three masters. The node has the
// Cluster's map.
func inCluster(t *testing.T, change func(c *Config), f func(t *testing.T, cl *fakeredis.Cluster, n *Node)) {
	t.Helper()
	nodetest.OnCluster(t, func(t *testing.T, cl *fakeredis.Cluster) {
		cfg := Config{Name: "n1", Dial: cl.Dial, Clock: clock.Runtime(), Kind: &cluster.Config{Addresses: cl.Addresses()[:1]}}
		if change != nil {
			change(&cfg)
		}
		n, err := Open(cfg)
		require.NoError(t, err)
		defer n.Close()
		synctest.Wait()
		for _, m := range cl.Masters {
			m.ForgetLog()
		}
		f(t, cl, n)
	})
}

// serverOf returns the only server of a node.
func serverOf(n *Node) *server.Server { return n.shape.(node.Master).Server }

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
	c.DialTimeout, c.HardTimeout = node.MaxWait, node.MaxWait
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
	require.Equal(t, command.Granted, pinging().Outcome(t, n))
}

// answers returns how many commands the node has matched to replies.
func answers(n *Node) int64 { return serverOf(n).Answered.Load() }

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
