package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// page is a page with a table.
func page(table string) string { return "## The order of mutexes\n\ntext\n\n```\n" + table + "\n```\n" }

func TestTheTableAllowsWhatFollowsFromIt(t *testing.T) {
	allowed, err := tableOf(page("A → B, C\nB → D\nD → none"))
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"A B": true, "A C": true, "A D": true, "B D": true}, allowed)
	require.NoError(t, compare([]string{"A D\tf ← g", "A D\th", "B D\tf"}, allowed))
	require.Error(t, compare([]string{"D A\tf ← g"}, allowed))
}

func TestATableWithACycleIsRefused(t *testing.T) {
	for _, table := range []string{"A → A", "A → B\nB → A", "A → B\nB → C\nC → B", "A B"} {
		_, err := tableOf(page(table))
		require.Error(t, err, table)
	}
	_, err := tableOf("no table")
	require.Error(t, err)
}

// The table of this project has no cycle.
func TestTheOrderOfMutexesHasNoCycle(t *testing.T) {
	text, err := os.ReadFile("../../../docs/dev/architecture.md")
	require.NoError(t, err)
	_, err = tableOf(string(text))
	require.NoError(t, err)
}

func TestMutexesOfStructsAreReplacedAndNoLineMoves(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.go", []byte("package p\n\nimport \"sync\"\n\ntype t struct {\n\tmu sync.Mutex // guards n\n\tn  int\n}\n"), 0o600))
	text, err := recording("a.go")
	require.NoError(t, err)
	require.Equal(t, `package p; import "github.com/quorumlock/go-redlock/internal/tools/lockorder/record"

import "sync"

type t struct {
	mu record.Mutex[lockClass_t_mu] // guards n
	n  int
}

type lockClass_t_mu struct{}

func (lockClass_t_mu) Name() string { return "p.t.mu" }

var _ sync.Mutex // its import stays in use
`, string(text))
	require.NoError(t, os.WriteFile("b.go", []byte("package p\n\ntype u struct{ n int }\n"), 0o600))
	text, err = recording("b.go")
	require.NoError(t, err)
	require.Nil(t, text)
}

func TestWrongUsageIsReported(t *testing.T) {
	require.ErrorContains(t, run([]string{"page"}), "usage")
	require.Error(t, run([]string{"no such page", "--", "./x"}))
}
