//go:build unix && !aix && !solaris

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/late"
)

func TestASignalEndsTheWaitForAClaimAndNothingIsHeldOrPrinted(t *testing.T) {
	t.Parallel()
	all := trio(t, 3)
	p := start(t, all, "acquire", "job")
	require.Contains(t, p.message(), `waiting up to 1m0s for job: held by "anna"`)
	p.signal(syscall.SIGINT)
	require.Equal(t, 128+int(syscall.SIGINT), p.status())
	require.Empty(t, p.gone())
}

func TestAnAcquireWaitsForTheReleaseOfAClaim(t *testing.T) {
	t.Parallel()
	all := masters(t)
	_, text := acquired(t, all, envOf(all), "--ttl", "1h", "--owner", "first", "job")
	p := start(t, all, "acquire", "--owner", "second", "job")
	require.Contains(t, p.message(), `held by "first"`)
	require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "-"))
	next := p.line()
	require.Equal(t, 0, p.status())
	got := invoke(t, envOf(all), "status", "job")
	require.Contains(t, got.out, `job is held by "second"`)
	require.Equal(t, silent, invoke(t, envOf(all), "release", next))
}

// A node that does not answer costs a script less than the node timeout.
func TestAnAcquireDoesNotWaitForAFrozenNode(t *testing.T) {
	late.LeaveOut(t, "it measures how soon the two nodes that are not frozen answer")
	t.Parallel()
	_, err := userBinary()
	require.NoError(t, err, "it takes long to build")
	all := masters(t)
	attempts(t, func() (wrong string) {
		all[2].Freeze()
		began := time.Now()
		p := startAsUser(t, all, "acquire", "job")
		claim := p.line()
		require.Equal(t, 0, p.status())
		if took := time.Since(began); took > 1500*time.Millisecond { // cli.AnswerTimeout is 250 ms, cli.ColdTimeout 2 s
			wrong = "it took " + took.String()
		}
		all[2].Unfreeze()
		allAnswered(t, all...) // the release has a connection of its own, and would overtake
		require.Equal(t, silent, invoke(t, envOf(all), "release", claim))
		return wrong
	})
}

func TestALockWhoseClaimCannotBePrintedIsReleased(t *testing.T) {
	t.Parallel()
	all := masters(t) // checks that no key is left
	_, text := acquired(t, all, envOf(all), "--ttl", "1h", "--owner", "first", "job")
	p := start(t, all, "acquire", "job")
	require.Contains(t, p.message(), `held by "first"`)
	require.NoError(t, p.out.Close()) // before there is a claim
	require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "-"))
	require.Equal(t, cli.ExitSystem, p.status())
	require.Contains(t, p.messages(), "the claim could not be written, so the lock is released")
}

func TestTheLabelOfAClaimIsTheCallersUnlessGiven(t *testing.T) {
	t.Parallel()
	all := masters(t)
	path, err := binary()
	require.NoError(t, err)
	p := startProgram(t, all, "sh", "-c", `CLAIM=$("$0" acquire job) || exit; "$0" status job; echo "$CLAIM" | "$0" release -; echo "$$ $?"`, path)
	seen := p.line()
	rest := p.gone()
	require.Equal(t, 0, p.status())
	require.Regexp(t, `(?m)^\d+ 0$`, rest)
	pid, _, _ := strings.Cut(lastLine(rest), " ")
	require.Contains(t, seen, "/"+pid+`" for`)
}
