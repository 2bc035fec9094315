//go:build unix && !aix && !solaris

package main

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

func TestARunOnQuarantinedMastersIs75AndSaysForHowLong(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"0", "50ms"} {
		all := guarded(t)
		quarantineFleet(t, all, time.Hour)
		p := start(t, all, "run", "--no-fence", "--guard", "1h", "--wait", wait, "job", "--", "echo", "never")
		status, messages := p.status(), p.messages()
		require.Equal(t, 75, status, messages)
		require.Regexp(t, `job: no quorum: nodes are quarantined after a restart, for (1h0m0s|5[5-9]m)`, messages)
		require.Contains(t, messages, "doctor --admit")
		require.Empty(t, p.gone())
	}
}

// Too few nodes answer to tell whether the guard has begun. The signal ends that wait as any other.
func TestASignalEndsTheWaitForTheGuard(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	all[0].Stop()
	all[1].Stop()
	p := start(t, all, "run", "--no-fence", "--guard", "12s", "--ttl", "12s", "job", "--", "echo", "never")
	require.Contains(t, p.message(), "waiting up to")
	p.signal(syscall.SIGINT)
	require.Equal(t, cli.ExitSignal+int(syscall.SIGINT), p.status(), p.messages())
}

func TestARunWaitsForTheEndOfAQuarantineAsItDoesForAHolder(t *testing.T) {
	t.Parallel()
	_, err := binary()
	require.NoError(t, err, "it takes longer to build than a quarantine lasts")
	attempts(t, func() string { // a busy machine may begin after the quarantine, or answer after the node timeout
		all := guarded(t)
		quarantineFleet(t, all, 5*time.Second)
		p := start(t, all, "run", "--no-fence", "--guard", "5s", "--ttl", "5s", "job", "--", "echo", "done")
		printed, messages := p.gone(), p.messages()
		if p.status() != 0 || printed != "done\n" ||
			!strings.HasPrefix(messages, "redlock: waiting up to 1m0s for job: no quorum: nodes are quarantined after a restart") {
			return "it printed " + strconv.Quote(printed) + ", and redlock: " + messages
		}
		return ""
	})
}

func TestARunOnAdmittedMastersNeedNotWait(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	require.Equal(t, cli.ExitOK, invoke(t, nil, "doctor", "--nodes", nodesOf(all), "--guard", "1h", "--admit").status)
	p := start(t, all, "run", "--no-fence", "--guard", "1h", "--wait", "0", "job", "--", "echo", "done")
	require.Equal(t, "done", p.line())
	require.Equal(t, 0, p.status())
}

// Waiting would not cure it: before, it was tried for as long as --wait says.
func TestMastersThatAreGuardedForOthersRefuseAtOnceWhateverTheWait(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	require.Equal(t, cli.ExitOK, invoke(t, nil, "doctor", "--nodes", nodesOf(all), "--guard", "1h", "--admit").status)
	_, text := acquired(t, all, envOf(all), "--guard", "1h", "--ttl", "1h", "job") // longer than 20 processes take
	claim := strings.TrimSpace(text)
	for what, args := range map[string][]string{
		"another maxTTL": {"--guard", "2h"},
		"another list":   {"--guard", "1h", "--nodes", nodesOf(all[:2])},
		"another name":   {"--guard", "1h", "--nodes", strings.ReplaceAll(nodesOf(all), "name=c", "name=d")},
		"no guard":       nil,
	} {
		for _, rest := range [][]string{
			{"run", "--wait", "1h", "other", "--", "echo", "never"},
			{"acquire", "--wait", "1h", "other"},
			{"extend", claim},
			{"release", claim},
			{"bench"},
		} {
			p := start(t, all, slices.Concat(rest[:1], args, rest[1:])...)
			require.Equal(t, cli.ExitConfig, p.status(), "%s: %s", what, rest[0])
			require.Empty(t, p.gone())
			messages := p.messages()
			require.Contains(t, messages, "guarded", "the nodes' words")
			require.Less(t, len(messages), 500, "the words of one node: %s", messages)
			require.NotContains(t, messages, "waiting")
		}
	}
	require.Equal(t, silent, invoke(t, append(envOf(all), "REDLOCK_GUARD=1h"), "extend", claim))
	require.Equal(t, silent, invoke(t, append(envOf(all), "REDLOCK_GUARD=1h"), "release", claim))
}

// One that is guarded for others is none the less one that may be down: two others may
// come back.
func TestAMinorityThatIsGuardedForOthersDoesNotEndAWait(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	require.Equal(t, cli.ExitOK, invoke(t, nil, "doctor", "--nodes", nodesOf(all[:1]), "--guard", "1h", "--admit").status)
	all[1].Stop()
	p := start(t, all, "run", "--no-fence", "job", "--", "echo", "done")
	require.Contains(t, p.message(), "waiting up to 1m0s for job: no quorum of nodes could be reached: ")
	require.NoError(t, all[1].Restart(false))
	require.Equal(t, "done", p.line())
	require.Equal(t, 0, p.status())
}

func TestAnAcquireOnQuarantinedMastersIs75(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	quarantineFleet(t, all, time.Hour)
	got := invoke(t, append(envOf(all), "REDLOCK_GUARD=1h"), "acquire", "--no-fence", "--wait", "0", "job")
	require.Equal(t, cli.ExitHeld, got.status, got)
	require.Contains(t, got.err, "quarantined after a restart, for ")
}

func TestTheDoctorSaysInWordsWhatItDoesNotAdmit(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	nodes := []string{"doctor", "--guard", "1h", "--admit", "--nodes", nodesOf(all)}
	all[1].SetInfo("role", "slave")
	got := invoke(t, nil, nodes...)
	require.Equal(t, cli.ExitFailed, got.status)
	require.Contains(t, got.err, "redlock: no node was admitted: see the errors above\n")
	got = invoke(t, nil, append(nodes, "--json")...)
	require.Equal(t, cli.ExitFailed, got.status)
	require.Contains(t, got.out, `"ok": false`)
	require.Contains(t, got.err, "redlock: not admitted: b is not fit to vote")
}
