//go:build unix && !aix && !solaris

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

func TestANodeThatDoesNotAnswerHasACureAndATrueDuration(t *testing.T) {
	t.Parallel()
	attempts(t, func() string { // on a busy machine a healthy node may be too late, too
		all := listing(t)
		all[0].RequireAuth("default", "secret")
		all[1].Stop()
		all[2].Freeze()
		p := startAsUser(t, all, "doctor")
		out := p.gone()
		require.NoError(t, all[1].Restart(true))
		all[2].Unfreeze()
		all[0].RequireAuth("default", "")
		require.Equal(t, cli.ExitFailed, p.status())
		fits(t, out)
		text := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{
			"a could not be examined: NOAUTH Authentication required: put the user's password into the node's URL",
			"b could not be examined: connection refused: no server listens there: start it",
			"c could not be examined: no answer within 2s: its process may be frozen",
			"0 of 3 can vote, 2 needed: locks can't be taken",
		} {
			if !strings.Contains(text, want) {
				return text
			}
		}
		return ""
	})
}
