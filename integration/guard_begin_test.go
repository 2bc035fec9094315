//go:build unix

package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// The guard is switched on while clients without it hold locks. A single --guard changes nothing,
// and the doctor begins the guard.
func TestTheDoctorBeginsTheGuardOnRealServers(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	busy := redlock.WithNodeTimeout(patience) // the machine may be
	l := open(t, nodes, busy)
	held := acquired(t, l, "job", ghostTTL)
	guard := []string{"--guard", operatorTTL.String()}
	status, out, stderr := c.served(t, words([]string{"run", "--wait", "20s", "other"}, append(guard, "--", "echo", "never")...)...)
	assert.Equal(t, exitConfig, status, stderr)
	assert.Empty(t, out)
	assert.Contains(t, stderr, "--begin-guard")
	assert.Contains(t, stderr, "--admit")
	for _, n := range nodes {
		assert.Empty(t, n.Keys(t, "redlock:guard"))
	}
	require.NoError(t, held.Extend(t.Context(), ghostTTL), "clients without the guard keep working")

	r := c.start(t, words([]string{"doctor", "--begin-guard"}, guard...)...)
	for _, n := range nodes {
		await(t, "the guard has begun", func() bool { return len(n.Keys(t, "redlock:guard")) == 1 })
	}
	require.NoError(t, r.Process.Kill(), "the command is killed, and continues when it is run again")
	r.exit(t)
	began := time.Now()
	await(t, "all nodes answer the doctor in time", func() bool {
		status, out, stderr = c.call(t, words([]string{"doctor", "--begin-guard"}, guard...)...)
		return !strings.Contains(strings.Join(strings.Fields(out), " "), "no answer within")
	})
	require.Zero(t, status, stderr+out)
	assert.Less(t, time.Since(began), 10*operatorTTL)
	assert.Contains(t, out, "The guard is in force")

	status, _, stderr = c.served(t, words([]string{"acquire", "--wait", "0", "job"}, guard...)...)
	assert.Equal(t, exitHeld, status, "a held lock stays held: %s", stderr)
	require.NoError(t, held.Release(t.Context()))
	status, out, stderr = c.served(t, words([]string{"run", "--wait", "0", "job"}, append(guard, "--", "echo", "done")...)...)
	assert.Zero(t, status, stderr)
	assert.Equal(t, "done\n", out)

	fresh, err := redlock.Open(redistest.URLs(nodes), busy)
	require.NoError(t, err)
	defer closeLocker(t, fresh)
	_, err = fresh.TryAcquire(t.Context(), "job", time.Minute)
	require.ErrorIs(t, err, redlock.ErrGuardMismatch, "a client without the guard")

	nodes[0].Restart(t) // rule 16
	r = c.start(t, words([]string{"run", "--wait", "20s", "--guard", operatorTTL.String(), "job"}, holdOn...)...)
	r.line(t) // the others are a majority: the restarted node may be asked later
	await(t, "the restarted node is quarantined", func() bool { return len(nodes[0].Keys(t, "redlock:guard")) == 1 })
	require.NoError(t, r.in.Close())
	status, _ = r.exit(t)
	assert.Zero(t, status, "%s", &r.stderr)
}
