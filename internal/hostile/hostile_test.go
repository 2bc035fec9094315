//go:build !race

package hostile

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// forms are what a confused proxy, a wrong service or a hostile server may send.
var forms = map[string]form{
	"a bulk string of 256 TiB":        {"$281474976710656\r\n", "", true},
	"a bulk string of 1 TiB":          {"$1099511627776\r\n", "", true},
	"a bulk string of 2 MiB":          {"$2097152\r\n", "x", true},
	"a bulk string of 1 MiB":          {"$1048576\r\n", "x", true},
	"bulk strings without end":        {"*16384\r\n", "$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n", true},
	"small bulk strings without end":  {"", "*4\r\n$0\r\n\r\n$1\r\nx\r\n*2\r\n$1\r\nx\r\n:1\r\n:1\r\n", false},
	"a bulk string that does not end": {"$1\r\nabc", "d", true},
	"a bulk string of -2":             {"$-2\r\n", "", true},
	"an array of 2^45":                {"*35184372088832\r\n", "", true},
	"an array of 2^31":                {"*2147483648\r\n", "", true},
	"an array of -2":                  {"*-2\r\n", "", true},
	"a length that overflows":         {"*18446744073709551617\r\n:1\r\n", "", true},
	"arrays within arrays":            {"", "*1\r\n", true},
	"wide arrays within arrays":       {"", "*16384\r\n", true},
	"arrays of empty arrays":          {"*16384\r\n", "*16384\r\n" + strings.Repeat("*0\r\n", 16384), true},
	"a line without end":              {"+", "x", true},
	"an error without end":            {"-ERR ", "x", true},
	"a header without end":            {"$", "0", true},
	"a large integer":                 {":99999999999999999999999999\r\n", "", false},
	"a nul inline":                    {"\x00\x00\r\n", "", true},
	"nothing but newlines":            {"", "\r\n", true},
	"a null of RESP3":                 {"_\r\n", "", true},
	"a push of RESP3":                 {">2\r\n+message\r\n+x\r\n", "", true},
	"a map of RESP3":                  {"%1\r\n+a\r\n:1\r\n", "", true},
	"HTTP":                            {"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", "<html></html>\r\n", true},
	"a TLS alert":                     {"\x15\x03\x01\x00\x02\x02\x28\r\n", "", true},
	"statuses without end":            {"", "+OK\r\n", false},
	"nulls without end":               {"", "$-1\r\n", false},
	"errors without end":              {"", "-BUSY no\r\n", false},
	"a message that is too large":     {"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1048577\r\n", "x", true},
	"messages without end":            {"", "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$3\r\nm x\r\n", false},
	"half a reply":                    {"*3\r\n$7\r\nmess", "", false},
}

// memory is what one hostile node may cost the process, in bytes.
const memory = 64 << 20

// mapped returns how many bytes the process has obtained from the system for heap, stacks and all
// else. It never decreases, so it is the maximum that was needed.
func mapped() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// servers are used for all forms of one phase.
type servers struct {
	t       *testing.T
	masters []*fakeredis.Master // the first two are healthy
	more    []*fakeredis.Master // Sentinels
	cluster *fakeredis.Cluster
}

func newServers(t *testing.T) *servers {
	t.Helper()
	s := &servers{t: t, cluster: fakeredis.NewCluster("c", 2, command.Slot)}
	for i := range 3 {
		m, err := fakeredis.New("n3"), error(nil)
		if i < 2 {
			m, err = fakeredis.Start("n" + strconv.Itoa(i+1))
		}
		require.NoError(t, err)
		s.masters = append(s.masters, m)
		y := fakeredis.NewSentinel("s"+strconv.Itoa(i+1), 2)
		y.SetMaster("m", "n3:6379")
		s.more = append(s.more, y.Master)
	}
	t.Cleanup(func() {
		s.cluster.Close()
		for _, m := range append(s.masters, s.more...) {
			m.Close()
		}
	})
	return s
}

// dial connects to the server that has the address.
func (s *servers) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for _, m := range append(append(s.masters, s.more...), s.cluster.Masters...) {
		if m.Addr() == address {
			return m.Dial(ctx, network, address)
		}
	}
	return nil, errors.New("no such server")
}

// through connects to the servers of these addresses through the peer.
func (s *servers) through(p *peer, addresses ...string) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.Contains(strings.Join(addresses, " "), address) {
			return p.dial(ctx, network, address)
		}
		return s.dial(ctx, network, address)
	}
}

// phase defines when the third node becomes hostile, and what the client does then.
type phase struct {
	kind    string // of the third node
	hostile string // the addresses of those that are
	after   string // what the client has to send to them first
	do      func(s *servers, l *redlock.Locker, p *peer)
}

var phases = map[string]phase{
	"handshake":              {"master", "n3:6379", "", locking},
	"command":                {"master", "n3:6379", "\r\nSET\r\n", locking},
	"script":                 {"master", "n3:6379", "\r\nEVALSHA\r\n", locking},
	"subscription":           {"master", "n3:6379", "\r\nSUBSCRIBE\r\n", waiting},
	"doctor":                 {"master", "n3:6379", "\r\nCONFIG\r\n", examining},
	"Sentinel, handshake":    {"sentinel", "s1:6379", "", locking},
	"Sentinel, question":     {"sentinel", "s1:6379", "\r\nSENTINEL\r\n", locking},
	"Sentinel, announcement": {"sentinel", "s1:6379", "\r\nSUBSCRIBE\r\n", locking},
	"Sentinels' master":      {"sentinel", "n3:6379", "\r\nEVALSHA\r\n", locking},
	"Cluster, handshake":     {"cluster", "c-1:6379 c-2:6379", "", locking},
	"Cluster, map":           {"cluster", "c-1:6379 c-2:6379", "\r\nSLOTS\r\n", locking},
	"Cluster, command":       {"cluster", "c-1:6379 c-2:6379", "\r\nSET\r\n", locking},
	"Cluster, doctor":        {"cluster", "c-1:6379", "\r\nCONFIG\r\n", examining},
}

// maxTTL is the guard's, where the third node is behind Sentinels.
const maxTTL = time.Minute

// open makes a Locker over the three nodes, as another process would.
func (s *servers) open(ph phase, p *peer) *redlock.Locker {
	var nodes []*pool.Node
	for i, m := range s.masters {
		c := pool.Config{Name: m.Name(), Address: m.Addr(), Dial: s.dial, DialTimeout: patience, HardTimeout: patience}
		if i == 2 {
			c.Dial, c.DialTimeout, c.HardTimeout, c.RedialMin = s.through(p, ph.hostile), 2*time.Second, time.Second, 50*time.Millisecond
		}
		if kind := ph.kind; i == 2 && kind != "master" {
			c.Address = ""
			if kind == "cluster" {
				c.Kind = &cluster.Config{Addresses: s.cluster.Addresses()}
			} else {
				c.Kind = &sentinel.Config{Master: "m", Addresses: []string{"s1:6379", "s2:6379", "s3:6379"}, MaxAge: time.Second}
			}
		}
		n, err := pool.Open(c)
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = n.Close() }) // before closeNow has waited for the hostile node
		if i < 2 {
			// If one of the healthy nodes never got the lock, the hostile node's answer would
			// decide, and the release would wait for it.
			require.Eventually(s.t, func() bool { return n.Stats().Connected == 1 }, patience, time.Millisecond)
		}
		nodes = append(nodes, n)
	}
	opts := []redlock.Option{redlock.WithNodeTimeout(patience)}
	if ph.kind == "sentinel" {
		opts = append(opts, redlock.WithRestartGuard(maxTTL))
	}
	l, err := redlock.New(nodes, opts...)
	require.NoError(s.t, err)
	return l
}

// patience is the node timeout: an operation that waits for the hostile node takes as long.
const patience = 40 * time.Second

// within runs f, which must not wait for the hostile node.
func within(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	f(ctx)
	require.NoError(t, ctx.Err(), "it waited for the hostile node")
}

// awaitKey waits until the lock's key has this value on the healthy nodes; "" means that it is gone.
func (s *servers) awaitKey(value string) {
	s.t.Helper()
	for _, m := range s.masters[:2] {
		for end := time.Now().Add(patience / 2); ; runtime.Gosched() {
			if v, _ := m.Get("a"); v == value {
				break
			}
			require.False(s.t, time.Now().After(end), "the key's value on a healthy node")
		}
	}
}

// lockOnce acquires a lock and releases it.
func lockOnce(s *servers, l *redlock.Locker) {
	t := s.t
	t.Helper()
	within(t, func(ctx context.Context) {
		k, err := l.TryAcquire(ctx, "a", maxTTL)
		require.NoError(t, err)
		// The hostile node may have granted before a healthy node was asked. A release would then take
		// back what was not sent yet, and find one node of three that held the lock.
		s.awaitKey(k.Token())
		require.NoError(t, k.Release(ctx))
		s.awaitKey("") // the hostile node may have confirmed the release
	})
}

// locking acquires locks until the form was sent. Between two locks it pauses: some forms are sent for
// seconds, and locks without a pause would take the processor from the client that reads them.
func locking(s *servers, l *redlock.Locker, p *peer) {
	deadline := time.After(time.Minute)
	for {
		lockOnce(s, l)
		select {
		case <-p.said:
			return
		case <-deadline:
			require.FailNow(s.t, "the form was not said, or the connection not ended")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// waiting waits for a lock that another process holds, and gets it when it is released.
func waiting(s *servers, l *redlock.Locker, p *peer) {
	t := s.t
	other := s.open(phase{kind: "master"}, newPeer(s.dial, "", form{}))
	k, err := other.TryAcquire(t.Context(), "b", maxTTL)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		k, err := l.Acquire(t.Context(), "b", maxTTL)
		if err == nil {
			err = k.Release(t.Context())
		}
		if errors.Is(err, redlock.ErrLost) {
			err = nil // it had the votes of the hostile node and of one other: see lockOnce
		}
		got <- err
	}()
	locking(s, l, p)
	within(t, func(ctx context.Context) {
		require.NoError(t, k.Release(ctx))
		select {
		case err := <-got:
			require.NoError(t, err)
		case <-ctx.Done():
		}
	})
	closeNow(other)
}

// examining runs a diagnosis meanwhile.
func examining(s *servers, l *redlock.Locker, p *peer) {
	t := s.t
	report, err := doctor.Diagnose(t.Context(), l)
	require.NoError(t, err)
	require.True(t, report.Nodes[0].Answered)
	require.True(t, report.Nodes[1].Answered)
	locking(s, l, p)
}

// phaseOf is the variable that names a child process's phase.
const phaseOf = "HOSTILE_PHASE"

// One node of three sends any bytes in any phase. It must not crash the process, cost 64 MiB or
// more, or delay the other two nodes. Each phase runs in a process of its own, whose memory is
// measured.
func TestOneHostileNodeCostsLittleAndDelaysNothing(t *testing.T) {
	if name := os.Getenv(phaseOf); name != "" {
		play(t, phases[name])
		return
	}
	for name := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneHostileNodeCostsLittleAndDelaysNothing$", "-test.timeout=5m")
			child.Env = append(os.Environ(), phaseOf+"="+name)
			said, err := child.CombinedOutput()
			require.NoError(t, err, "%s", said[:min(len(said), 8<<10)])
		})
	}
}

// play sends all forms in one phase.
func play(t *testing.T, ph phase) {
	t.Helper()
	s := newServers(t)
	l := s.open(ph, newPeer(s.dial, "", form{}))
	if ph.kind == "sentinel" {
		report, err := doctor.Admit(t.Context(), l)
		require.NoError(t, err, "%v", report)
	}
	lockOnce(s, l)
	closeNow(l)
	start := mapped()
	for what, f := range forms {
		t.Run(what, func(t *testing.T) {
			runtime.GC() // what the form before it left must not count
			p := newPeer(s.dial, ph.after, f)
			var closing sync.WaitGroup
			t.Cleanup(func() { closing.Wait(); p.conns.Wait() }) // when the nodes are closed
			p.armed.Store(true)
			s := &servers{t: t, masters: s.masters, more: s.more, cluster: s.cluster}
			l := s.open(ph, p)
			ph.do(s, l, p)
			lockOnce(s, l)
			closing.Go(func() { closeNow(l) })
			require.Less(t, mapped()-start, uint64(memory))
		})
	}
	t.Logf("it took %d KiB", (mapped()-start)>>10)
}

// closeNow does not wait for undos on the hostile node.
func closeNow(l *redlock.Locker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.Close(ctx)
}
