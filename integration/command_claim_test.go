//go:build unix

package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// script runs testdata/claim.sh, with the built command in its PATH.
func (c command) script(t *testing.T) command {
	t.Helper()
	t.Setenv("PATH", filepath.Dir(c.path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	path, err := filepath.Abs(filepath.Join("testdata", "claim.sh"))
	require.NoError(t, err)
	return command{path, c.nodes}
}

func TestAShellScriptHoldsALockByItsClaimOnRealServers(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	s := c.script(t)

	// While one script runs its step the next one is refused, or waits.
	first := s.start(t, "job", "echo begun; cat", "echo second step")
	require.Equal(t, "begun", first.line(t))
	status, out, said := c.served(t, "acquire", "--wait", "0", "job")
	assert.Equal(t, exitHeld, status, said)
	assert.Empty(t, out)
	second := s.start(t, "job", "echo the next")
	require.NoError(t, first.in.Close())
	status, out = first.exit(t)
	assert.Zero(t, status, "%s", &first.stderr)
	assert.Equal(t, "second step\n", out)
	status, out = second.exit(t)
	assert.Zero(t, status, "%s", &second.stderr)
	assert.Equal(t, "the next\n", out)
	redistest.NoKeys(t, nodes, time.Second)

	// A frozen node changes nothing.
	nodes[1].Pause(t)
	status, out, said = s.call(t, "job", "echo runs")
	nodes[1].Unpause(t)
	assert.Zero(t, status, said)
	assert.Equal(t, "runs\n", out)
	redistest.NoKeys(t, nodes, 35*time.Second) // keys that the script could not delete expire by TTL

	// If a lock is lost in a step the script ends before the next step.
	third := s.start(t, "job", "echo begun; cat", "echo must not run")
	require.Equal(t, "begun", third.line(t))
	nodes[0].Restart(t) // the third may never get the key: acquire has ended
	nodes[1].Restart(t)
	require.NoError(t, third.in.Close())
	status, out = third.exit(t)
	assert.Equal(t, exitLost, status, "%s", &third.stderr)
	assert.Empty(t, out)
	assert.Contains(t, third.stderr.String(), "lock lost")
	assert.NotContains(t, third.stderr.String(), "redlock1.e", "a process with the claim can release the lock")
	for _, n := range nodes { // a claim that is lost releases nothing
		left, err := redis.Int64(n.Do(t, "PTTL", "job"), nil)
		require.NoError(t, err)
		assert.NotEqual(t, int64(-1), left, "what is left expires by its TTL")
	}
}
