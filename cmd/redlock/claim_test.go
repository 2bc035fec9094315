package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

// someClaim is one that nobody gave.
const someClaim = "redlock1.eyJuIjpbImFtOWkiXSwidCI6ImRtMHZNVHBCUWtORVJVWkhTRWxLUzB4TlRrOVFVVkpUVkZWV1YxaFpXZz09IiwiZCI6MzAwMDAwMDAwMDB9"

// claimOf reads what acquire printed.
func claimOf(t *testing.T, got outcome) redlock.Claim {
	t.Helper()
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Empty(t, got.err)
	var claim redlock.Claim
	require.NoError(t, claim.UnmarshalText([]byte(strings.TrimSuffix(got.out, "\n"))), got.out)
	return claim
}

// acquired returns a claim that acquire printed, once every node has executed what acquire sent. No
// other clients may be connected.
func acquired(t *testing.T, all []*fakeredis.Master, env []string, words ...string) (claim redlock.Claim, printed string) {
	t.Helper()
	got := invoke(t, env, append([]string{"acquire"}, words...)...)
	allAnswered(t, all...)
	return claimOf(t, got), got.out
}

func envOf(all []*fakeredis.Master) []string { return []string{"REDLOCK_NODES=" + nodesOf(all)} }

// silent is an invocation that succeeded and said nothing.
var silent = outcome{status: cli.ExitOK}

func TestALockLivesByItsClaimFromAcquireToRelease(t *testing.T) {
	t.Parallel()
	all := masters(t)
	env := envOf(all)
	claim, text := acquired(t, all, env, "--owner", "tester", "job")
	require.Equal(t, []string{"job"}, claim.Names)
	require.Equal(t, 30*time.Second, claim.TTL)
	for _, m := range all {
		token, _ := m.Get("job")
		require.Equal(t, claim.Token, token)
	}
	require.True(t, strings.HasPrefix(claim.Token, "tester:"))

	extended := func(why string) {
		t.Helper()
		allAnswered(t, all...)
		for _, m := range all {
			require.Greater(t, m.TTL("job"), 9*time.Minute, why)
		}
	}
	require.Equal(t, silent, invokeWith(t, text, env, "extend", "--ttl", "10m", "-"))
	extended("by the TTL that is given")
	require.Equal(t, silent, invoke(t, env, "extend", strings.TrimSpace(text)))
	extended("an extension shortens nothing")

	require.Equal(t, silent, invokeWith(t, text, env, "release", "-"))
	allAnswered(t, all...)
	require.Empty(t, locks(all...))
	got := invokeWith(t, text, env, "release", "-")
	require.Equal(t, cli.ExitLost, got.status)
	require.Contains(t, got.err, `claim on "job" by tester:…: lock lost`)
	got = invokeWith(t, text, env, "extend", "-")
	require.Equal(t, cli.ExitLost, got.status)
	allAnswered(t, all...)
	require.Empty(t, locks(all...), "an extension makes nothing")
}

func TestAClaimIsOfTheNextHolderAndNoneBeforeIt(t *testing.T) {
	t.Parallel()
	all := masters(t)
	env := envOf(all)
	first, text := acquired(t, all, env, "job")
	require.Equal(t, silent, invokeWith(t, text, env, "release", "-"))
	releasedEverywhere(t, all...)
	second, next := acquired(t, all, env, "job")
	require.Greater(t, second.Fence, first.Fence)
	require.Equal(t, cli.ExitLost, invokeWith(t, text, env, "release", "-").status)
	allAnswered(t, all...)
	require.Len(t, locks(all...), 3, "the next holder's stands")
	require.Equal(t, silent, invokeWith(t, next, env, "release", "-"))
}

func TestClaimsArePrintedAsJSON(t *testing.T) {
	t.Parallel()
	env := envOf(masters(t))
	var h map[string]any
	read := func(got outcome) {
		t.Helper()
		require.Equal(t, cli.ExitOK, got.status, got)
		h = nil
		require.NoError(t, json.Unmarshal([]byte(got.out), &h))
	}
	read(invoke(t, env, "acquire", "--json", "job"))
	claim, _ := h["claim"].(string)
	require.InDelta(t, 29_600, h["left_ms"], 10_000)
	fence, id := h["fence"], h["id"]
	require.Greater(t, fence, 1e15)
	require.Len(t, h, 5)

	read(invoke(t, env, "extend", "--json", "--ttl", "5m", claim))
	require.InDelta(t, 297_000, h["left_ms"], 10_000)
	delete(h, "left_ms")
	require.Equal(t, map[string]any{"names": []any{"job"}, "id": id, "fence": fence}, h)

	read(invoke(t, env, "release", "--json", claim))
	require.Equal(t, map[string]any{"names": []any{"job"}, "id": id, "released": true}, h)

	read(invoke(t, env, "acquire", "--no-fence", "--json", "job"))
	require.NotContains(t, h, "fence")
	claim, _ = h["claim"].(string)
	require.Equal(t, silent, invoke(t, env, "release", claim))
}

func TestANameThatIsHeldIsNotAcquiredAndNothingIsPrinted(t *testing.T) {
	t.Parallel()
	all := masters(t)
	_, text := acquired(t, all, envOf(all), "--owner", "first", "job")
	for _, wait := range []string{"0", "50ms"} {
		got := invoke(t, envOf(all), "acquire", "--wait", wait, "job")
		require.Equal(t, cli.ExitHeld, got.status)
		require.Empty(t, got.out)
		require.Contains(t, got.err, `held by "first" for `)
	}
	require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "-"))
}

func TestAKeyThatIsNoLockIsNotWaitedForByAcquire(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for _, m := range all {
		m.PushList("job")
	}
	got := invoke(t, envOf(all), "acquire", "--wait", "1h", "job")
	require.Equal(t, cli.ExitForeign, got.status)
	require.Contains(t, got.err, "not a lock")
	setFree(all, "job")
}

func TestWithoutAQuorumClaimsAre69(t *testing.T) {
	t.Parallel()
	all := masters(t)
	_, text := acquired(t, all, envOf(all), "job")
	heldEverywhere(t, all, "job")
	all[0].Stop()
	all[1].Stop()
	for _, args := range [][]string{{"acquire", "--wait", "0", "another job"}, {"extend", "-"}, {"release", "-"}} {
		got := invokeWith(t, text, envOf(all), args...)
		require.Equal(t, cli.ExitUnavailable, got.status, got)
		require.Empty(t, got.out)
		for _, m := range all[:2] {
			require.Contains(t, got.err, m.Name()+": ", "every node is named")
		}
	}
	allAnswered(t, all[2])
	require.Len(t, locks(all[2]), 1)
	require.NoError(t, all[0].Restart(true))
	require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "-"))
	require.NoError(t, all[1].Restart(false))
}

func TestALockThatExpiredIsLostToItsClaim(t *testing.T) {
	t.Parallel()
	all := masters(t)
	_, text := acquired(t, all, envOf(all), "job")
	setFree(all[:2], "job")
	for _, name := range []string{"extend", "release"} {
		got := invokeWith(t, text, envOf(all), name, "-")
		require.Equal(t, cli.ExitLost, got.status, got)
		require.Contains(t, got.err, "lock lost")
	}
	allAnswered(t, all...)
	setFree(all, "job")
}

// What is not sent when the handle ends is never sent.
func TestAClaimIsPrintedWhenAllNodesHaveAnswered(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[2].SetDelay(30 * time.Millisecond)
	for range 20 { // a machine may be too busy for the third in the time given, but not each time
		got := invoke(t, envOf(all), "acquire", "job")
		copies := len(locks(all...))
		claimOf(t, got)
		require.Equal(t, silent, invokeWith(t, got.out, envOf(all), "release", "-"))
		allAnswered(t, all...)
		require.Empty(t, locks(all...))
		if copies == 3 {
			return
		}
	}
	t.Fatal("the slow node has no copy")
}

func TestNoTokenIsPrintedButInAClaim(t *testing.T) {
	t.Parallel()
	all := masters(t)
	env := envOf(all)
	claim, text := acquired(t, all, env, "--owner", "tester", "job")
	_, secret, _ := strings.Cut(claim.Token, ":")
	require.Len(t, secret, 26)
	text = strings.TrimSpace(text)
	hidden := text[len("redlock1."):]
	for _, args := range [][]string{
		{"acquire", "--wait", "0", "job"},
		{"status", "job"},
		{"status", "--json", "job"},
		{"extend", text},
		{"extend", "--json", text},
		{"extend", "--ttl", text},
		{"release", "--guard", text},
		{text},
		{"release", text, text},
		{"run", text},
		{"status", text},
		{"completion", text},
		{"bench", "--count", text},
		{"release", "-" + text},
		{"release", text},
		{"release", text},
		{"extend", text},
	} {
		got := invoke(t, env, args...)
		require.NotContains(t, got.out+got.err, secret, args[0])
		require.NotContains(t, got.out+got.err, hidden, args[0])
	}
}

func TestAClaimOfAProgramOnSeveralNamesIsTaken(t *testing.T) {
	t.Parallel()
	all := masters(t)
	locker, err := redlock.Open(strings.Split(nodesOf(all), ","), redlock.WithMaxTTL(100*time.Hour), redlock.WithNodeTimeout(cli.ColdTimeout))
	require.NoError(t, err)
	defer cli.CloseSoon(locker)
	lock, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, 50*time.Hour)
	require.NoError(t, err)
	heldEverywhere(t, all, "a")
	heldEverywhere(t, all, "b")
	claim, err := lock.Detach()
	require.NoError(t, err)
	text, err := claim.MarshalText()
	require.NoError(t, err)
	require.Equal(t, silent, invokeWith(t, string(text)+"\n", envOf(all), "extend", "-"))
	got := invokeWith(t, string(text), envOf(all), "release", "--json", "-")
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Contains(t, got.out, `"a",`)
}
