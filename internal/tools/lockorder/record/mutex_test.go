package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type (
	a struct{}
	b struct{}
)

func (a) Name() string { return "a" }
func (b) Name() string { return "b" }

func TestTheOrderOfMutexesIsRecordedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seen")
	t.Setenv("LOCK_ORDER", file)
	var first Mutex[a]
	var second Mutex[b]
	n := 0
	for range 2 {
		first.Lock()
		second.Lock()
		n++
		second.Unlock()
		first.Unlock()
	}
	require.Equal(t, 2, n)
	second.Lock()
	require.True(t, first.TryLock(), "an attempt cannot block, so its order does not matter")
	require.False(t, first.TryLock())
	first.Unlock()
	second.Unlock()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "\n"))
	require.Contains(t, string(text), "a b\trecord.TestTheOrderOfMutexesIsRecordedOnce")
}
