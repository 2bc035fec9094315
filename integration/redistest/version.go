package redistest

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// version is queried once, because every node runs the same image.
var version struct {
	sync.Mutex // guards major

	major int
}

// Major returns the major version of Redis that the servers of the tests are compatible with.
// Valkey counts as Redis 7.
func Major(t testing.TB) int {
	t.Helper()
	version.Lock()
	defer version.Unlock()
	if version.major == 0 {
		version.major = majorOf(t, Start(t, 1)[0])
	}
	return version.major
}

func majorOf(t testing.TB, n *Node) int {
	t.Helper()
	info, err := redis.String(n.Do(t, "INFO", "server"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if v, found := strings.CutPrefix(line, "redis_version:"); found {
			first, _, _ := strings.Cut(v, ".")
			major, err := strconv.Atoi(first)
			if err != nil {
				t.Fatalf("redistest: node %s is version %q", n.Addr(), v)
			}
			return major
		}
	}
	t.Fatalf("redistest: node %s does not report its version", n.Addr())
	return 0
}

// Freely returns the arguments by which a server allows DEBUG and the change of every setting while
// it runs. Servers before Redis 7 always allow both, and do not know these arguments.
func Freely(t testing.TB) []string {
	t.Helper()
	if Major(t) < 7 {
		return nil
	}
	return []string{"--enable-debug-command", "yes", "--enable-protected-configs", "yes"}
}
