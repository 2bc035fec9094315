package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

// quarantineFleet has a program under the guard be the first on the nodes.
func quarantineFleet(t *testing.T, all []*fakeredis.Master, maxTTL time.Duration) {
	t.Helper()
	l, err := redlock.Open(strings.Split(nodesOf(all), ","), redlock.WithRestartGuard(maxTTL))
	require.NoError(t, err)
	eventually(t, "the first acquisition is refused", func() bool {
		_, err := l.TryAcquire(t.Context(), "first", maxTTL)
		return errors.Is(err, redlock.ErrQuarantined)
	})
	eventually(t, "all are quarantined", func() bool { return len(markers(all)) == len(all) })
	require.NoError(t, l.Close(t.Context()))
}

// markers are those of the guard on the nodes.
func markers(all []*fakeredis.Master) (list []string) {
	for _, m := range all {
		if marker, ok := m.Get("redlock:guard"); ok {
			list = append(list, marker)
		}
	}
	return list
}

// One stray --guard would lock out all clients without it.
func TestNoSubcommandBeginsTheGuardByItself(t *testing.T) {
	t.Parallel()
	for what, breaks := range map[string]func(all []*fakeredis.Master){
		"no marker anywhere":         func([]*fakeredis.Master) {},
		"a minority does not answer": func(all []*fakeredis.Master) { all[0].Stop() },
	} {
		all := guarded(t)
		_, text := acquired(t, all, envOf(all), "job") // by a client without the guard
		breaks(all)
		for _, words := range [][]string{
			{"acquire", "--wait", "0", "other"}, {"acquire", "--wait", "1h", "other"}, {"extend", "-"}, {"release", "-"}, {"bench", "--count", "3"},
		} {
			got := invokeWith(t, text, envOf(all), append(words, "--guard", "1h")...)
			require.Equal(t, cli.ExitConfig, got.status, "%s: %v: %v", what, words, got)
			require.Contains(t, got.err, "`redlock doctor --guard 1h0m0s --begin-guard`, which waits 1h0m0s")
			require.Contains(t, got.err, "`redlock doctor --guard 1h0m0s --admit`")
			allAnswered(t, all...)
			require.Empty(t, markers(all), "%s: %v", what, words)
		}
		require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "-"), "they are not locked out")
		allAnswered(t, all...)
		for _, m := range all {
			m.FlushAll()
		}
	}
}

func TestOneMarkerOfTheseClientsIsEnough(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	require.Equal(t, cli.ExitOK, invoke(t, envOf(all), "doctor", "--guard", "1h", "--admit").status)
	all[0].Del("redlock:guard")
	acquire := []string{"acquire", "--no-fence", "--guard", "1h", "--wait", "0"}
	_, text := acquired(t, all, envOf(all), append(acquire[1:], "job")...)
	require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "--guard", "1h", "-"))
	eventually(t, "rule 16: the node that forgot is quarantined", func() bool {
		marker, _ := all[0].Get("redlock:guard")
		return strings.Contains(marker, "|q")
	})
	allAnswered(t, all...)
	all[0].Del("redlock:guard")
	all[1].Del("redlock:guard")
	require.Equal(t, cli.ExitHeld, invoke(t, envOf(all), append(acquire, "job")...).status, "two are quarantined")
}

func TestTheGuardIsNotUsedWhileTooFewNodesAnswer(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	all[0].Stop()
	all[1].Stop()
	for _, wait := range []string{"0", "300ms"} {
		got := invoke(t, envOf(all), "acquire", "--no-fence", "--guard", "1h", "--wait", wait, "job")
		require.Equal(t, cli.ExitUnavailable, got.status, got)
		allAnswered(t, all...)
		require.Empty(t, markers(all))
	}
}

func TestTheDoctorBeginsTheGuardAndWaitsUntilAllMastersVote(t *testing.T) {
	t.Parallel()
	all := guarded(t)
	// The node timeout is a quarter of it: a busy machine needs that.
	begin := []string{"doctor", "--guard", "6s", "--begin-guard"}
	holdAll(all, "job", secretToken, time.Hour) // of a client without the guard
	began := time.Now()
	got := invoke(t, envOf(all), begin...)
	require.Equal(t, cli.ExitOK, got.status, got)
	require.GreaterOrEqual(t, time.Since(began), 6*time.Second)
	require.Contains(t, got.err, "quarantined for 6s; clients without the guard are refused when they connect")
	require.Contains(t, got.out, "\nThe guard is in force: clients with --guard 6s can start.\n")
	require.Regexp(t, `(?m)^✓ c .* ok$`, got.out)
	for _, marker := range markers(all) {
		require.True(t, strings.HasSuffix(marker, "|ok"), marker)
	}
	require.Len(t, markers(all), 3)
	eventually(t, "nothing else is left", func() bool { return len(locks(all...)) == 3 })
	attempts(t, func() string { // the node timeout is a quarter of the guard's maxTTL
		got := invoke(t, envOf(all), "acquire", "--guard", "6s", "--wait", "0", "job")
		if got.status == cli.ExitUnavailable {
			return got.err
		}
		require.Equal(t, cli.ExitHeld, got.status, "the lock that was held stays held: %v", got)
		return ""
	})
	for _, m := range all {
		require.True(t, m.Del("job"))
	}

	got = invoke(t, envOf(all), append(begin, "--json")...)
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Empty(t, got.err, "there is nothing to wait for")
	require.Equal(t, "true", field(t, got.out, "ok"))
}

func TestTheGuardIsNotBegunWhereAMasterIsNotFit(t *testing.T) {
	t.Parallel()
	for what, breaks := range map[string]func(m *fakeredis.Master){
		"down":             func(m *fakeredis.Master) { m.Stop() },
		"a replica":        func(m *fakeredis.Master) { m.SetInfo("role", "slave") },
		"of other clients": func(m *fakeredis.Master) { m.Set("redlock:guard", "2|a|b|3600000|0|c|d|ok", 0) },
	} {
		all := guarded(t)
		breaks(all[2])
		before := markers(all)
		for _, more := range [][]string{nil, {"--json"}} {
			got := invoke(t, envOf(all), append([]string{"doctor", "--guard", "1h", "--begin-guard"}, more...)...)
			require.Equal(t, cli.ExitFailed, got.status, "%s: %v", what, got)
			require.Contains(t, got.err, "the guard was not begun, and nothing was changed")
			allAnswered(t, all...)
			require.Equal(t, before, markers(all))
		}
	}
	for _, words := range [][]string{{"--begin-guard"}, {"--begin-guard", "--admit", "--guard", "1h"}} {
		require.Equal(t, cli.ExitUsage, invoke(t, []string{"REDLOCK_NODES=redis://127.0.0.1:1"}, append([]string{"doctor"}, words...)...).status)
	}
}

func TestWrongUsageIsReportedBeforeTheGuardIsQueried(t *testing.T) {
	t.Parallel()
	env := []string{"REDLOCK_NODES=redis://127.0.0.1:1", "REDLOCK_GUARD=10s"}
	forged, err := redlock.Claim{Names: []string{"n"}, Token: "known", TTL: time.Second}.MarshalText()
	require.NoError(t, err)
	for _, words := range [][]string{{"acquire", "--ttl", "20s", "n"}, {"acquire", "redlock:n"}, {"release", string(forged)}} {
		got := invoke(t, env, words...)
		require.Equal(t, cli.ExitUsage, got.status, got)
	}
}
