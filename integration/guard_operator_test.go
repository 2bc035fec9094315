//go:build unix

package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The commands of an operator: a diagnosis, an admission, a run; then a master restarts, and the
// doctor reports it.
func TestTheCommandUnderTheGuard(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	guard := []string{"--guard", guardTTL.String()}
	doctor := func(more ...string) (int, string) {
		status, out, stderr := c.call(t, words(append([]string{"doctor"}, more...), guard...)...)
		if status == 0 {
			assert.Empty(t, stderr)
		} else {
			assert.Contains(t, stderr, "no node was admitted")
		}
		return status, out
	}
	run := func(more ...string) (int, string, string) {
		w := words([]string{"run", "--ttl", "1s"}, guard...)
		return c.call(t, append(append(w, more...), "job", "--", "echo", "done")...)
	}
	status, out := doctor()
	assert.Zero(t, status, out)
	assert.Contains(t, out, "has no marker of the restart guard")
	for _, n := range nodes {
		assert.Empty(t, n.Keys(t, "*"), "a diagnosis changes nothing")
	}

	nodes[2].Do(t, "SET", "job", "somebody's", "PX", 60000)
	status, out = doctor("--admit")
	assert.Equal(t, 1, status)
	assert.Contains(t, out, "has a key that may be a lock (\"job\", for ")
	nodes[2].Do(t, "DEL", "job")

	status, out = doctor("--admit")
	assert.Zero(t, status, out)
	assert.Contains(t, out, "They are admitted: clients can start.")
	status, out, stderr := run("--wait", "0")
	assert.Zero(t, status, stderr)
	assert.Equal(t, "done\n", out)

	nodes[0].Restart(t)
	nodes[1].Restart(t)
	status, _, stderr = run("--wait", "0")
	assert.Equal(t, exitHeld, status, stderr)
	assert.Contains(t, stderr, "quarantined after a restart, for ")
	status, out = doctor("--admit")
	assert.Equal(t, 1, status, "nothing shortens the quarantine")
	assert.Contains(t, out, "never shortened")
	status, out, stderr = run("--wait", "20s")
	assert.Zero(t, status, stderr)
	assert.Equal(t, "done\n", out)

	status, out, _ = c.call(t, "doctor")
	assert.Equal(t, 1, status, "a client without the guard is refused")
	assert.Contains(t, out, "with a maxTTL of "+guardTTL.String())
	status, _, stderr = c.call(t, "status", "job")
	assert.Zero(t, status, "status is allowed: %s", stderr)
}
