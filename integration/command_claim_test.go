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

// begun starts the script, and waits until its first step has begun: again if there was no quorum because the machine
// stopped.
func (c command) begun(t *testing.T, words ...string) (r *running) {
	t.Helper()
	await(t, "the first step begins", func() bool {
		r = c.start(t, words...)
		line, err := r.out.ReadString('\n')
		if err == nil {
			require.Equal(t, "begun\n", line)
			return true
		}
		status, _ := r.exit(t)
		require.Equal(t, exitUnavailable, status, "%s", &r.stderr)
		return false
	})
	return r
}

func TestAShellScriptHoldsALockByItsClaimOnRealServers(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	s := c.script(t)

	// While one script runs its step the next one is refused, or waits.
	await(t, "both scripts have a quorum", func() bool {
		began := time.Now()
		first := s.begun(t, "job", "echo begun; cat", "echo second step")
		status, out, said := c.served(t, "acquire", "--wait", "0", "job")
		assert.Equal(t, exitHeld, status, said)
		assert.Empty(t, out)
		second := s.start(t, "job", "echo the next")
		require.NoError(t, first.in.Close())
		one, wrote := first.exit(t)
		two, wroteNext := second.exit(t)
		if one == exitUnavailable || two == exitUnavailable {
			require.GreaterOrEqual(t, time.Since(began), nodeTimeout, "%s%s", &first.stderr, &second.stderr)
			return false
		}
		assert.Zero(t, one, "%s", &first.stderr)
		assert.Equal(t, "second step\n", wrote)
		assert.Zero(t, two, "%s", &second.stderr)
		assert.Equal(t, "the next\n", wroteNext)
		return true
	})
	redistest.NoKeys(t, nodes, time.Second)

	// A frozen node changes nothing.
	nodes[1].Pause(t)
	status, out, said := s.served(t, "job", "echo runs")
	nodes[1].Unpause(t)
	assert.Zero(t, status, said)
	assert.Equal(t, "runs\n", out)
	redistest.NoKeys(t, nodes, 35*time.Second) // keys that the script could not delete expire by TTL

	// If a lock is lost in a step the script ends before the next step.
	var third *running
	await(t, "a majority tells the script that the lock is lost", func() bool {
		third = s.begun(t, "job", "echo begun; cat", "echo must not run")
		nodes[0].Restart(t) // the third may never get the key: acquire has ended
		nodes[1].Restart(t)
		began := time.Now()
		require.NoError(t, third.in.Close())
		status, out = third.exit(t)
		if status == exitUnavailable {
			require.GreaterOrEqual(t, time.Since(began), nodeTimeout, "%s", &third.stderr)
		}
		return status != exitUnavailable
	})
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
