package redistest

import (
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
func Run(m *testing.M) int {
	idle.keep = true
	status := m.Run()
	return max(status, idle.remove())
}

// idle has the servers that wait for another test.
var idle idleNodes

type idleNodes struct {
	keep bool // before any test starts

	mu    sync.Mutex // guards nodes
	nodes []*Node
}

// take returns up to n servers, which are no longer idle.
func (i *idleNodes) take(n int) []*Node {
	i.mu.Lock()
	defer i.mu.Unlock()
	rest := max(0, len(i.nodes)-n)
	taken := slices.Clone(i.nodes[rest:])
	i.nodes = i.nodes[:rest]
	return taken
}

func (i *idleNodes) put(n *Node) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.nodes = append(i.nodes, n)
}

// remove removes all of them, and returns 1 if a container is left.
func (i *idleNodes) remove() (status int) {
	var wg sync.WaitGroup
	nodes := i.take(len(i.nodes))
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		wg.Go(func() { errs[i] = testcontainers.TerminateContainer(n.ctr, testcontainers.StopTimeout(0)) })
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

// memorize notes what a new server is like, so that another test may get it.
func (n *Node) memorize(t testing.TB) {
	t.Helper()
	conn, err := n.connect(adminTimeout)
	if err == nil {
		defer func() { _ = conn.Close() }()
		n.asNew, err = settings(conn)
	}
	if err != nil {
		t.Fatalf("redistest: node %s: %v", n.Addr(), err)
	}
}

// leave ends a test's use of a server: the server waits for another test, or is removed.
func (n *Node) leave(t testing.TB) {
	t.Helper()
	if n.asNew != "" && !n.spent.Load() && !t.Failed() && n.renew() {
		idle.put(n)
		return
	}
	// A grace period would only delay the end of the test, because these servers have nothing to save.
	testcontainers.CleanupContainer(t, n.ctr, testcontainers.StopTimeout(0))
}

// renewTimeout bounds each command that makes a server like new. A server that is paused or busy is
// removed.
const renewTimeout = time.Second

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
		words := redis.Args{}.AddFlat(strings.Fields(command))
		if _, err := conn.Do(words[0].(string), words[1:]...); err != nil {
			return false
		}
	}
	now, err := settings(conn)
	return err == nil && now == n.asNew
}

// settings returns what is the same on all new servers, and what no command of renew resets: the
// settings, the users, the role, and whether the last copy to the disk failed.
func settings(conn redis.Conn) (string, error) {
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
			if slices.Contains([]string{"role", "connected_slaves", "master_replid2", "rdb_last_bgsave_status"}, name) {
				all.WriteString(line)
			}
		}
	}
	return all.String(), nil
}
