package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
)

func TestABenchThatFindsSomethingLeftFails(t *testing.T) {
	t.Parallel()
	r := &benchResult{nodes: []string{"a"}, clients: 1, left: []string{"bench-x/1 on a"}}
	r.errors = map[string]int{"lost": 1}
	var out strings.Builder
	r.print(&terminal.Printer{W: &out})
	require.Contains(t, out.String(), "✗ lost: 1 time\n")
	require.Contains(t, out.String(), "✗ left behind, until it expires: bench-x/1 on a\n")
	require.NotContains(t, out.String(), "LEAST", "nothing was measured")
}
