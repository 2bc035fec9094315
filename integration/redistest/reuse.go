package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/testcontainers/testcontainers-go"
)

// Run runs the tests of a TestMain and returns their exit status. In such a process a server that
// [Start] started without arguments is not removed with its test, because to start and to remove a
// container takes longer than most tests. It is made like new, and a later test of the process gets it.
// A server that can't be made like new is removed, and so are the servers of a test that failed. Run
// removes the others when all tests have ended.
func Run(m interface{ Run() int }) int {
	idle.enabled = true
	status := m.Run()
	return max(status, idle.remove())
}

// idle has the servers that wait for another test.
var idle idleNodes

type idleNodes struct {
	enabled bool // before any test starts

	mu    sync.Mutex // guards nodes
	nodes []*Node
}

// pop returns up to n servers, which are no longer idle.
func (i *idleNodes) pop(n int) []*Node {
	i.mu.Lock()
	defer i.mu.Unlock()
	rest := max(0, len(i.nodes)-n)
	taken := slices.Clone(i.nodes[rest:])
	i.nodes = i.nodes[:rest]
	return taken
}

func (i *idleNodes) push(n *Node) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.nodes = append(i.nodes, n)
}

// remove removes all of them, and returns 1 if a container is left.
func (i *idleNodes) remove() (status int) {
	var wg sync.WaitGroup
	nodes := i.pop(len(i.nodes))
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.remove() })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			fmt.Printf("redistest: remove node %s: %v\n", nodes[i].Addr(), err)
			status = 1
		}
	}
	return status
}

// memorize notes the state of a new server, so that another test may get the server. A server that
// does not tell its state is removed with its test.
func (n *Node) memorize() {
	conn, err := n.connect(renewTimeout)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	n.initial, _ = state(conn)
}

// recycle ends a test's use of a server: the server waits for another test, or is removed.
func (n *Node) recycle(t testing.TB) {
	t.Helper()
	if n.initial != "" && !n.notReusable.Load() && !n.isFrozen() && !t.Failed() && n.renew() {
		idle.push(n)
		return
	}
	if err := n.remove(); err != nil {
		t.Errorf("redistest: the machine failed (Docker), and not the library: remove node %s: %v", n.Addr(), err)
	}
}

// remove removes the container. A grace period would only delay the end of the test, because these
// servers have nothing to save.
func (n *Node) remove() error {
	return repeated(context.Background(), func() error {
		return testcontainers.TerminateContainer(n.ctr, testcontainers.StopTimeout(0))
	}, neverFinal)
}

// renewTimeout bounds each command that makes a server like new. A server that is paused or busy is
// removed.
const renewTimeout = 4 * time.Second

// renew makes a server like new and reports whether it is. Its clients are disconnected. A test that
// changed a setting, a user or the role has to change it back.
func (n *Node) renew() bool {
	conn, err := n.connect(renewTimeout)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	for _, command := range []string{
		"CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE replica",
		"FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT", "SLOWLOG RESET", "LATENCY RESET", "ACL LOG RESET",
	} {
		words := strings.Fields(command)
		if _, err := conn.Do(words[0], redis.Args{}.AddFlat(words[1:])...); err != nil {
			return false
		}
	}
	// A client that connects again is still at work.
	clients, err := redis.String(conn.Do("CLIENT", "LIST"))
	if err != nil || strings.Count(clients, "\n") != 1 {
		return false
	}
	now, err := state(conn)
	return err == nil && now == n.initial
}

// state returns what is the same on all new servers, and what no command of renew resets: the
// settings, the users, and what the server has done as a master, as a replica and on disk.
func state(conn redis.Conn) (string, error) {
	config, err := redis.StringMap(conn.Do("CONFIG", "GET", "*"))
	if err != nil {
		return "", err
	}
	users, err := redis.Strings(conn.Do("ACL", "LIST"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	fmt.Fprintln(&all, config, users) // a map is printed in the order of its keys
	for _, section := range []string{"replication", "persistence"} {
		info, err := redis.String(conn.Do("INFO", section))
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(info) {
			name, _, _ := strings.Cut(line, ":")
			if slices.Contains(lasting, name) {
				all.WriteString(line)
			}
		}
	}
	return all.String(), nil
}

// lasting are the fields of INFO that differ from those of a new server after a server was a replica,
// had one, or wrote a copy to its disk.
var lasting = []string{
	"role", "connected_slaves", "master_replid2", "repl_backlog_active", "rdb_last_bgsave_status", "rdb_last_bgsave_time_sec", "rdb_saves",
}
