package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/integration/redistest"
)

// moved matches the output of a successful migration.
const moved = `(?s)` +
	`1  redsync alone\n.*` +
	`while ours-1 holds the name, redsync-2 is refused\n.*while redsync-2 holds the name, ours-1 is refused\n.*` +
	`the last redsync\n.*` +
	`guarded-1 comes first, and has to wait for 3s\n.*` +
	`all nodes are guarded\n.*` +
	`refused by every node.\n` +
	`\d+ turns, and never two workers inside at once`

func TestAServiceMovesFromRedsyncInTwoDeployments(t *testing.T) {
	requireMoved(t, func() []string { return nil })
}

// requireMoved plays the migration with the arguments that args returns, which it returns. On a busy
// machine a client may lose a lock, or not hear from the servers in time: then it plays it again. A
// client that should be excluded, and is not, is not excused.
func requireMoved(t *testing.T, args func() []string) (last []string) {
	t.Helper()
	var out, errs bytes.Buffer
	for range 5 {
		out.Reset()
		errs.Reset()
		last = args()
		status := show.Run("migration", play, last, &out, &errs)
		require.NotContains(t, errs.String(), errNotExcluded.Error())
		if status == 0 {
			break
		}
	}
	require.Empty(t, errs.String(), "%s", &out)
	require.Regexp(t, moved, out.String())
	return last
}

func TestItMovesOnRealMastersOnce(t *testing.T) {
	nodes := requireMoved(t, func() []string {
		return []string{"--nodes", strings.Join(redistest.URLs(redistest.Start(t, 3)), ",")}
	})
	var out, errs bytes.Buffer
	require.Equal(t, 1, show.Run("migration", play, nodes, &out, &errs))
	require.Contains(t, errs.String(), "the nodes are guarded already")
}

// The control: the ledger detects two clients that are inside at once.
func TestTheLedgerFindsTwoInsideAtOnce(t *testing.T) {
	var l ledger
	soon := time.Now().Add(time.Minute)
	require.NoError(t, l.enter("a", soon))
	err := l.enter("b", soon)
	require.ErrorIs(t, err, errNotExcluded)
	require.ErrorContains(t, err, "b and a are inside at once")
	l.leave("a")
	require.NoError(t, l.enter("b", time.Now().Add(-time.Second)), "the validity is over")
	require.NoError(t, l.enter("c", soon))
}

// The control: a client that gets the name too early is detected. One that gets it later is a failure
// that a busy machine may cause.
func TestALockIsGrantedTooEarlyOnlyBeforeTheExclusionEnds(t *testing.T) {
	require.ErrorIs(t, granted(time.Now().Add(time.Minute)), errNotExcluded)
	late := granted(time.Now().Add(-time.Second))
	require.Error(t, late)
	require.NotErrorIs(t, late, errNotExcluded)
}
