package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

const token2 = "ben:ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// listing starts nodes that are emptied at the end.
func listing(t *testing.T) []*fakeredis.Master {
	t.Helper()
	all := masters(t)
	t.Cleanup(func() {
		allAnswered(t, all...)
		for _, m := range all {
			m.FlushAll()
		}
	})
	return all
}

// listed is what list printed for programs.
type listed struct {
	Complete bool
	Names    []struct {
		Name, State, Owner, ID string
		Bytes                  []byte `json:"name_base64"`
		LeftMS                 int64  `json:"left_ms"`
		Fence                  int64
	}
	Nodes []struct{ Node, Error string }
}

func (l listed) names() (names []string) {
	for _, n := range l.Names {
		names = append(names, n.Name)
	}
	return names
}

// list runs list --json, and expects that status.
func listNames(t *testing.T, status int, all []*fakeredis.Master, words ...string) (l listed) {
	t.Helper()
	got := invoke(t, envOf(all), append([]string{"list", "--json"}, words...)...)
	require.Equal(t, status, got.status, got)
	require.NoError(t, json.Unmarshal([]byte(got.out), &l), got)
	conceals(t, "list", got.out+got.err, token, token2)
	return l
}

func TestAListHasTheOwnerTheTimeLeftAndTheFence(t *testing.T) {
	t.Parallel()
	all := listing(t)
	claim, text := acquired(t, all, envOf(all), "--owner", "anna", "job")
	holdAll(all[:2], "ledger", token2, time.Hour)
	all[2].Set("minority", token, time.Hour)
	all[0].PushList("a list")
	holdAll(all, "plain", "a value", time.Hour)

	got := invoke(t, envOf(all), "list")
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Empty(t, got.err)
	require.Regexp(t, fmt.Sprintf(`(?s)^  NAME     OWNER    ID +LEFT +FENCE\n● job      "anna"   [0-9a-f]{24}   \S+ +%d\n● ledger   "ben"    [0-9a-f]{24}   \S+ +–\n\n`+
		`2 names are held\. This is no snapshot: [^\n]*\.\n$`, claim.Fence), got.out)
	conceals(t, "list", got.out, claim.Token)

	l := listNames(t, cli.ExitOK, all)
	require.True(t, l.Complete)
	require.Equal(t, []string{"job", "ledger"}, l.names())
	require.Equal(t, "held", l.Names[0].State)
	require.Equal(t, "anna", l.Names[0].Owner)
	require.Equal(t, command.ID(claim.Token), l.Names[0].ID)
	require.Equal(t, claim.Fence, l.Names[0].Fence)
	require.InDelta(t, 30_000, l.Names[0].LeftMS, 10_000)
	require.Zero(t, l.Names[1].Fence)
	require.Len(t, l.Nodes, 3)
	for _, n := range listNames(t, cli.ExitOK, all, "--no-fence").Names {
		require.Zero(t, n.Fence)
	}
	require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "-"))
}

// JSON has only text: two such names would look alike.
func TestANameThatIsNoTextIsListedWithItsBytes(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "a\xff", token, time.Hour)
	holdAll(all, "b", token2, time.Hour)
	l := listNames(t, cli.ExitOK, all)
	require.Len(t, l.Names, 2)
	require.Equal(t, "a\xff", string(l.Names[0].Bytes))
	require.Nil(t, l.Names[1].Bytes)
}

func TestAListWithoutLocksIsEmpty(t *testing.T) {
	t.Parallel()
	all := listing(t)
	got := invoke(t, envOf(all), "list", "none")
	require.Equal(t, cli.ExitOK, got.status)
	require.Regexp(t, `^No name is held\. This is no snapshot`, got.out)
	require.Equal(t, listed{Complete: true, Names: listNames(t, cli.ExitOK, all).Names[:0], Nodes: listNames(t, cli.ExitOK, all).Nodes}, listNames(t, cli.ExitOK, all))
	require.Contains(t, invoke(t, envOf(all), "list", "--json").out, `"names": []`)
}

func TestAPrefixIsNoPattern(t *testing.T) {
	t.Parallel()
	all := listing(t)
	odd := []string{`a*b`, `a?b`, `a[b]c`, `a\b`, "a\"b", "a b", "größe"}
	for _, name := range append(odd, "axb", "axxb", "abc", "ab") {
		holdAll(all, name, token, time.Hour)
	}
	for _, name := range odd {
		require.Equal(t, []string{name}, listNames(t, cli.ExitOK, all, "--", name).names())
	}
	require.Equal(t, []string{"ab", "abc"}, listNames(t, cli.ExitOK, all, "ab").names())
	require.Len(t, listNames(t, cli.ExitOK, all, "a").names(), len(odd)+3)
}

func TestAListIsOfTheKeyPrefixAndNamesAreWithoutIt(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "app[1]/job", token, time.Hour)
	holdAll(all, "app1/job", token, time.Hour)
	holdAll(all, "job", token, time.Hour)
	require.Equal(t, []string{"job"}, listNames(t, cli.ExitOK, all, "--prefix", "app[1]/").names())
	require.Equal(t, []string{"job"}, listNames(t, cli.ExitOK, all, "--prefix", "app[1]/", "j").names())
	require.Empty(t, listNames(t, cli.ExitOK, all, "--prefix", "app[1]/", "k").names())
}

// integration/ lists thousands, on real servers: a fake one sorts all its keys for every command.
func TestKeysOfSeveralPagesAreListedUpToTheLimit(t *testing.T) {
	t.Parallel()
	all := listing(t)
	const n = 110 // more than one query reads
	for i := range n {
		holdAll(all, fmt.Sprintf("lock/%04d", i), token, time.Hour)
	}
	for i := range 10 {
		holdAll(all, fmt.Sprintf("lock/data/%04d", i), "not a lock", time.Hour)
	}
	// A fake node takes long for so many keys, and on a busy machine longer than the node timeout.
	answer := func(words ...string) (got outcome) {
		attempts(t, func() string {
			got = invoke(t, envOf(all), append([]string{"list", "--timeout", "1m"}, words...)...)
			if got.status == cli.ExitUnavailable {
				return got.err
			}
			return ""
		})
		return got
	}
	var l listed
	got := answer("--json", "--limit", "110", "lock/")
	require.Equal(t, cli.ExitOK, got.status, got)
	require.NoError(t, json.Unmarshal([]byte(got.out), &l))
	require.True(t, l.Complete)
	require.Len(t, l.Names, n)
	require.Equal(t, "lock/0109", l.Names[n-1].Name)
	got = answer("--json", "--limit", "100", "lock/")
	require.Equal(t, cli.ExitFailed, got.status, got)
	l = listed{}
	require.NoError(t, json.Unmarshal([]byte(got.out), &l))
	require.False(t, l.Complete)
	require.Len(t, l.Names, 100)
	got = answer("--limit", "100")
	require.Equal(t, cli.ExitFailed, got.status, got)
	require.Contains(t, got.out, "\nMore names may be held: --limit ended the search.\n")
	l = listNames(t, cli.ExitFailed, all, "--timeout", "1ns", "lock/")
	require.False(t, l.Complete)
}

func TestAListNeedsAQuorumAndNamesTheNodesThatFailed(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	holdAll(all[:2], "maybe", token2, time.Hour)
	all[0].Stop()
	got := invoke(t, envOf(all), "list")
	require.Equal(t, cli.ExitOK, got.status)
	require.Contains(t, got.out, "● job")
	require.Regexp(t, `(?m)^\? maybe +"ben" +[0-9a-f]{24} +– +–$`, got.out)
	require.Contains(t, got.out, "✗ a was not searched: ")
	require.Contains(t, got.out, "1 name is held, and 1 more may be (?).")
	l := listNames(t, cli.ExitOK, all)
	require.Equal(t, "unclear", l.Names[1].State)
	require.NotEmpty(t, l.Nodes[0].Error)
	require.Empty(t, l.Nodes[1].Error)

	all[1].Deny("SCAN")
	got = invoke(t, envOf(all), "list")
	require.Equal(t, cli.ExitUnavailable, got.status)
	require.Empty(t, got.out)
	require.Contains(t, got.err, "no quorum")
	require.Contains(t, got.err, "b: scanning the keys: NOPERM")
	require.NoError(t, all[0].Restart(true))
	require.Equal(t, []string{"job", "maybe"}, listNames(t, cli.ExitOK, all).names(), "two nodes are enough")
}

// A node that answers the search may fail before it is asked who holds what was found.
func TestANodeThatFailsAfterTheSearchIsNotCounted(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	for _, m := range all[:2] {
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			return "-NOPERM no rights to redlock:fence:job", strings.HasPrefix(cmd, "EVAL") && len(args) > 1 && args[1] == "2"
		})
	}
	got := invoke(t, envOf(all), "list")
	require.Equal(t, cli.ExitUnavailable, got.status)
	require.Contains(t, got.err, "a: NOPERM no rights")
	require.Contains(t, got.err, "b: NOPERM no rights")
	require.Equal(t, []string{"job"}, listNames(t, cli.ExitOK, all, "--no-fence").names())
	all[1].Hook(nil)
	l := listNames(t, cli.ExitOK, all)
	require.Equal(t, "held", l.Names[0].State)
	require.Contains(t, l.Nodes[0].Error, "NOPERM")
}
