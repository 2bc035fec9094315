package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// adminTimeout bounds each step of an administrator's command: dialling, writing and reading.
const adminTimeout = 2 * time.Second

// reserved is the namespace of what the library keeps beside the lock keys. It may outlive a lock.
const reserved = "redlock:"

// Try sends one command to database 0 over a connection of its own, which shares nothing with the client under test, and returns
// the reply. A server that does not answer is an error within a few seconds.
func (n *Node) Try(cmd string, args ...any) (reply any, err error) {
	conn, err := redis.Dial("tcp", n.Addr(), append(
		slices.Clone(n.dial),
		redis.DialConnectTimeout(adminTimeout),
		redis.DialReadTimeout(adminTimeout),
		redis.DialWriteTimeout(adminTimeout),
	)...)
	if err != nil {
		return nil, fmt.Errorf("redistest: node %s: %w", n.Addr(), err)
	}
	// A connection that failed says so again when it is closed, and there is nothing that the caller could do about it.
	defer func() { _ = conn.Close() }()
	if reply, err = conn.Do(cmd, args...); err != nil {
		return nil, fmt.Errorf("redistest: node %s: %s: %w", n.Addr(), cmd, err)
	}
	return reply, nil
}

// Do is [Node.Try] for a command that has to succeed. A bulk string comes as []byte: the helpers of redigo convert it.
func (n *Node) Do(t testing.TB, cmd string, args ...any) any {
	t.Helper()
	reply, err := n.Try(cmd, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// Keys returns the keys of database 0 that match a pattern of the KEYS command, in no order. Expired keys are not among them.
func (n *Node) Keys(t testing.TB, pattern string) []string {
	t.Helper()
	keys, err := n.keys(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func (n *Node) keys(pattern string) ([]string, error) {
	return redis.Strings(n.Try("KEYS", pattern))
}

// Slack is how many times as long as on a healthy machine a test waits before it calls a thing late: the build server's cores are
// slow and busy, and what is looked for (a ghost that only its TTL removes) takes longer by far.
const Slack = 3

// NoKeys waits until no node has a key in database 0, but for those in the library's own namespace, and fails the test when one is
// left after within, naming it and its node. A node that can't be asked counts as one that is not clean.
func NoKeys(t testing.TB, nodes []*Node, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(Slack * within)
	for {
		err := leftKeys(nodes)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("keys are left after %v: %v", Slack*within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leftKeys is an error that names every lock key on every node, or nil.
func leftKeys(nodes []*Node) error {
	var errs []error
	for _, n := range nodes {
		keys, err := n.keys("*")
		if err != nil {
			errs = append(errs, err)
		}
		for _, key := range keys {
			if !strings.HasPrefix(key, reserved) {
				errs = append(errs, fmt.Errorf("node %s: %q", n.Addr(), key))
			}
		}
	}
	return errors.Join(errs...)
}
