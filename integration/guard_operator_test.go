//go:build unix

package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// operatorTTL is the maxTTL of guarded commands. Their node timeout is a quarter of it, and 2 s at most.
const operatorTTL = 8 * time.Second

// The commands of an operator: a diagnosis, an admission, a run; then a master restarts, and the
// doctor reports it.
func TestTheCommandUnderTheGuard(t *testing.T) {
	// Two commands have to see one quarantine, and a busy machine may repeat each.
	const maxTTL = 3 * operatorTTL
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	guard := []string{"--guard", maxTTL.String()}
	// A node that is late is also a finding, so a diagnosis or an admission may have to be repeated.
	diagnosed := func(more ...string) (status int, out, stderr string) {
		await(t, "all nodes answer the doctor in time", func() bool {
			status, out, stderr = c.call(t, words([]string{"doctor"}, more...)...)
			late := strings.Contains(strings.Join(strings.Fields(out), " "), "no answer within")
			return redistest.Admitted(t, nodes, out+stderr) && !late
		})
		return status, out, stderr
	}
	doctor := func(status int, says string, more ...string) {
		got, out, stderr := diagnosed(words(more, guard...)...)
		require.Equal(t, status, got, out)
		require.Contains(t, out, says)
		if status == 0 {
			assert.Empty(t, stderr)
		} else {
			assert.Contains(t, stderr, "no node was admitted")
		}
	}
	run := func(more ...string) (int, string, string) {
		w := words([]string{"run"}, guard...)
		return c.served(t, append(append(w, more...), "job", "--", "echo", "done")...)
	}
	doctor(0, "has no marker of the restart guard")
	for _, n := range nodes {
		assert.Empty(t, n.Keys(t, "*"), "a diagnosis changes nothing")
	}

	nodes[2].Do(t, "SET", "job", "somebody's", "PX", 60000)
	doctor(exitFailed, "has a key that may be a lock (\"job\", for ", "--admit")
	nodes[2].Do(t, "DEL", "job")

	doctor(0, "They are admitted: clients can start.", "--admit")
	status, out, stderr := run("--wait", "0")
	assert.Zero(t, status, stderr)
	assert.Equal(t, "done\n", out)

	nodes[0].Restart(t)
	nodes[1].Restart(t)
	status, _, stderr = run("--wait", "0")
	assert.Equal(t, exitHeld, status, stderr)
	assert.Contains(t, stderr, "quarantined after a restart, for ")
	doctor(exitFailed, "never shortened", "--admit")
	status, out, stderr = run("--wait", "60s")
	assert.Zero(t, status, stderr)
	assert.Equal(t, "done\n", out)

	status, out, _ = diagnosed()
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, out, "with a maxTTL of "+maxTTL.String(), "a client without the guard is refused")
	status, _, stderr = c.served(t, "status", "job")
	assert.Zero(t, status, "status is allowed: %s", stderr)
}
