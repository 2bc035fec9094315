//go:build unix && !aix && !solaris

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/embedded"
)

// guarded starts masters whose markers go at the end.
func guarded(t *testing.T) []*embedded.Master {
	t.Helper()
	all := masters(t)
	t.Cleanup(func() {
		for _, m := range all {
			m.Del("redlock:node")
		}
	})
	return all
}

func TestARunOnNewMastersWithTheGuardIs75AndSaysForHowLong(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"0", "50ms"} {
		p := start(t, guarded(t), "run", "--no-fence", "--guard", "1h", "--wait", wait, "job", "--", "echo", "never")
		status, messages := p.status(), p.messages()
		require.Equal(t, 75, status, messages)
		require.Regexp(t, `job: masters that may have forgotten locks are quarantined for (1h0m0s|59m59)`, messages)
		require.Contains(t, messages, "doctor --admit")
		require.Empty(t, p.gone())
	}
}

func TestARunWaitsForTheEndOfAQuarantineAsItDoesForAHolder(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	p := start(t, all, "run", "--no-fence", "--guard", "1s", "--ttl", "1s", "job", "--", "echo", "done")
	require.Contains(t, p.message(), "waiting up to 1m0s for job: masters that may have forgotten locks")
	require.Equal(t, "done", p.line())
	require.Equal(t, 0, p.status())
}

func TestARunOnAdmittedMastersNeedNotWait(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	require.Equal(t, exitOK, invoke(t, nil, "doctor", "--nodes", nodesOf(all), "--guard", "1h", "--admit").status)
	p := start(t, all, "run", "--no-fence", "--guard", "1h", "--wait", "0", "job", "--", "echo", "done")
	require.Equal(t, "done", p.line())
	require.Equal(t, 0, p.status())
}
