//go:build unix && !aix && !solaris

package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// tell is a command that shows its fence.
var tell = []string{"sh", "-c", `echo "fence=$REDLOCK_FENCE"`}

func TestACommandKnowsItsFenceAndTheNextOneHasALargerOne(t *testing.T) {
	t.Parallel()
	all := masters(t)
	last := int64(0)
	for range 3 {
		p := start(t, all, append([]string{"run", "job", "--"}, tell...)...)
		fence, err := strconv.ParseInt(p.line()[len("fence="):], 10, 64)
		require.NoError(t, err)
		require.Greater(t, fence, last)
		require.Less(t, fence, int64(1<<53))
		last = fence
		require.Equal(t, 0, p.status())
	}
	allAnswered(t, all...)
	counted := 0
	for _, m := range all {
		if text, ok := m.Get("redlock:fence:job"); ok && text == strconv.FormatInt(last, 10) {
			counted++
		}
	}
	require.GreaterOrEqual(t, counted, 2, "a majority")
}

// Also inside of another run, whose fence says nothing of this lock.
func TestWithoutAFenceTheVariableIsEmptyAndNothingIsCounted(t *testing.T) {
	t.Parallel()
	all := masters(t)
	env := append(envOf(all), "REDLOCK_FENCE=1790000000000000")
	p := startIn(t, env, append([]string{"run", "--no-fence", "job", "--"}, tell...)...)
	require.Equal(t, "fence=", p.line())
	require.Equal(t, 0, p.status())
	allAnswered(t, all...)
	for _, m := range all {
		require.NotContains(t, m.Keys(), "redlock:fence:job")
	}
}
