package redistest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// adminTimeout bounds each step of an administrator's command: dialling, writing and reading.
const adminTimeout = 10 * time.Second

// reserved is the prefix of the keys that the library keeps beside the lock keys. They may outlive
// a lock.
const reserved = "redlock:"

// Try sends one command to database 0, over a connection of its own that shares nothing with the
// client under test. It returns the reply. If the server does not answer, Try returns an error
// within a few seconds.
func (n *Node) Try(cmd string, args ...any) (reply any, err error) {
	conn, err := n.connect(adminTimeout)
	if err != nil {
		return nil, fmt.Errorf("redistest: node %s: %w", n.Addr(), err)
	}
	// Closing a failed connection returns its error again, which the caller has already seen.
	defer func() { _ = conn.Close() }()
	if reply, err = conn.Do(cmd, args...); err != nil {
		return nil, fmt.Errorf("redistest: node %s: %s: %w", n.Addr(), cmd, err)
	}
	return reply, nil
}

// Dial connects to the server itself, with further options, also in tests in which the node is late for
// its clients ([Node.Addr]).
func (n *Node) Dial(options ...redis.DialOption) (redis.Conn, error) {
	return redis.Dial("tcp", n.server(), append(slices.Clone(n.dial), options...)...)
}

// connect connects to the server. Each step of each command takes up to within.
func (n *Node) connect(within time.Duration) (redis.Conn, error) {
	return n.Dial(redis.DialConnectTimeout(within), redis.DialReadTimeout(within), redis.DialWriteTimeout(within))
}

// Do is [Node.Try] for a command that must succeed. A bulk string is returned as []byte, which the
// helpers of redigo convert.
func (n *Node) Do(t testing.TB, cmd string, args ...any) any {
	t.Helper()
	reply, err := n.Try(cmd, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// Keys returns the keys of database 0 that match a pattern of the KEYS command, in no particular
// order. It does not return expired keys.
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

// Slack multiplies the time that a test waits on a healthy machine before it fails. The cores of
// the build server are slow and busy. The defects that such tests detect, as a key that only its
// TTL removes, take much longer.
const Slack = 3

// Admitted reports whether a diagnosis with an admission, of which text is the output, got the answers that it needs in time:
// otherwise the machine stopped. It removes the markers of an admission that stopped halfway, since a second one keeps what it
// finds.
func Admitted(t testing.TB, nodes []*Node, text string) bool {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ") // the command folds it
	if halfway.MatchString(text) {
		for _, n := range nodes {
			n.Do(t, "DEL", "redlock:guard")
		}
		return false
	}
	return !strings.Contains(text, "did not answer, so no node is admitted")
}

var halfway = regexp.MustCompile(`did not confirm its admission in time|was not admitted \([^)]*(timeout|in time|no answer)`)

// NoKeys waits until no node has a key in database 0 outside the library's own prefix. If a key is
// left after within, NoKeys fails the test and names the key and its node. A node that cannot be
// queried counts as not clean.
func NoKeys(t testing.TB, nodes []*Node, within time.Duration) {
	t.Helper()
	var err error
	if !polled(Slack*within, 20*time.Millisecond, func() bool {
		err = leftKeys(nodes)
		return err == nil
	}) {
		t.Fatalf("keys are left after %v: %v", Slack*within, err)
	}
}

// polled polls until ok returns true, and reports whether it did. It counts polls: within is how long
// they take on an idle machine, and a machine that stops for seconds loses one of them.
func polled(within, every time.Duration, ok func() bool) bool {
	for polls := within / every; !ok(); polls-- {
		if polls <= 0 {
			return false
		}
		time.Sleep(every)
	}
	return true
}

// leftKeys returns an error that names every lock key on every node, or nil.
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
