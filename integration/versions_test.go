//go:build unix

package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// previousCommand builds the command of another version of this repository: the commit or tag in
// REDLOCK_TEST_PREVIOUS, or else the last release, or else the commit before this one.
func previousCommand(t *testing.T, nodes []*redistest.Node) command {
	t.Helper()
	git := func(words ...string) (string, error) {
		out, err := exec.Command("git", words...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		t.Skipf("the sources are not a repository: %s", top)
	}
	version := os.Getenv("REDLOCK_TEST_PREVIOUS")
	if version == "" {
		if version, err = git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1"); err != nil {
			version = "HEAD~1"
		}
	}
	if shallow, _ := git("rev-parse", "--is-shallow-repository"); shallow == "true" {
		if _, err := git("rev-parse", "--verify", version+"^{commit}"); err != nil {
			t.Skipf("a shallow clone has no %s", version)
		}
	}
	sources := t.TempDir()
	archive := filepath.Join(sources, "sources.tar")
	out, err := git("-C", top, "archive", "-o", archive, version)
	require.NoError(t, err, "REDLOCK_TEST_PREVIOUS: %s", out)
	unpacked, err := exec.Command("tar", "-xf", archive, "-C", sources).CombinedOutput()
	require.NoError(t, err, "%s", unpacked)
	t.Logf("the previous version is %s", version)
	path := filepath.Join(t.TempDir(), "redlock")
	build := exec.Command("go", "build", "-trimpath", "-o", path, ".") // the cache then ignores the folder, which is new each time
	build.Dir = filepath.Join(sources, "cmd", "redlock")
	work := filepath.Join(build.Dir, "own.work")
	if _, err := os.Stat(work); err != nil {
		work = "off" // the command was a part of the library's module
	}
	build.Env = append(os.Environ(), "GOWORK="+work)
	built, err := build.CombinedOutput()
	require.NoError(t, err, "%s", built)
	return command{path, nodes}
}

// holding is the output of redlock acquire --json.
type holding struct {
	Claim string `json:"claim"`
	Fence int64  `json:"fence"`
}

func (c command) acquire(t *testing.T, words ...string) (h holding) {
	t.Helper()
	status, out, stderr := c.call(t, append([]string{"acquire", "--json", "--ttl", "30s"}, words...)...)
	require.Zero(t, status, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), &h), out)
	return h
}

func (c command) withClaim(t *testing.T, subcommand string, h holding, words ...string) {
	t.Helper()
	tries := 0
	await(t, "a majority answers", func() bool {
		tries++
		began := time.Now()
		r := c.start(t, append([]string{subcommand, "-"}, words...)...)
		_, err := r.in.Write([]byte(h.Claim + "\n"))
		require.NoError(t, err)
		require.NoError(t, r.in.Close())
		switch status, _ := r.exit(t); {
		case status == exitUnavailable:
			require.GreaterOrEqual(t, time.Since(began), nodeTimeout, "%s", &r.stderr)
			return false
		case status == exitLost && subcommand == "release" && tries > 1: // the first one has deleted the keys, and was not told
		default:
			require.Zero(t, status, "%s: %s", subcommand, &r.stderr)
		}
		return true
	})
}

// docs/versions.md: clients of the previous version and of this one share servers, in both
// directions: during an upgrade and during a rollback.
func TestThePreviousVersionAndThisOneShareServers(t *testing.T) {
	nodes := masters(t, 3)
	ours, theirs := buildCommand(t, nodes), previousCommand(t, nodes)
	var last int64
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	share := func(t *testing.T, one, two command) {
		first := one.acquire(t, "job")
		require.Greater(t, first.Fence, last, "a holder's fence is larger than all before, of either version")
		status, _, stderr := two.served(t, "acquire", "--wait", "0", "job")
		require.Equal(t, exitHeld, status, stderr)
		two.withClaim(t, "extend", first)

		// A release by either version wakes waiters of both.
		tells := []string{"run", "--ttl", "30s", "job", "--", "sh", "-c", "echo $REDLOCK_FENCE"}
		waiters := []*running{one.start(t, tells...), two.start(t, tells...)}
		for _, n := range nodes {
			await(t, "both wait for the release", func() bool { return listeners(t, n, "job") == 2 })
		}
		two.withClaim(t, "release", first)
		var fences []int64
		for _, w := range waiters {
			status, out := w.exit(t)
			require.Zero(t, status, "%s", &w.stderr)
			fences = append(fences, number(strings.TrimSpace(out)))
		}
		slices.Sort(fences)
		require.Greater(t, fences[0], first.Fence)
		require.Greater(t, fences[1], fences[0])
		last = fences[1]
	}
	t.Run("an upgrade", func(t *testing.T) { share(t, theirs, ours) })
	t.Run("a rollback", func(t *testing.T) { share(t, ours, theirs) })
	redistest.NoKeys(t, nodes, time.Second)

	// Both versions interpret the guard's marker alike, and get no vote from a node that forgot.
	t.Run("the guard", func(t *testing.T) {
		guard := []string{"--guard", "1m", "--ttl", "30s"}
		var status int
		var out, stderr string
		await(t, "all nodes answer in time", func() bool {
			status, out, stderr = ours.call(t, "doctor", "--admit", "--guard", "1m")
			return redistest.Admitted(t, nodes, out+stderr)
		})
		require.Zero(t, status, stderr+out)
		for _, c := range []command{theirs, ours} {
			status, out, stderr = c.served(t, words(words([]string{"run", "--wait", "0"}, guard...), "job", "--", "echo", "done")...)
			require.Zero(t, status, stderr)
			require.Equal(t, "done\n", out)
			status, _, _ = c.call(t, "run", "--wait", "0", "job", "--", "echo", "never")
			require.NotZero(t, status, "a client without the guard")
		}
		for _, n := range nodes[:2] {
			n.Restart(t)
		}
		for _, c := range []command{theirs, ours} {
			status, _, stderr = c.served(t, words(words([]string{"run", "--wait", "0"}, guard...), "job", "--", "echo", "never")...)
			require.Equal(t, exitHeld, status, stderr)
			require.Contains(t, stderr, "quarantined")
		}
	})
}
