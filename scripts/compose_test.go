package scripts_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// compose.yaml starts the servers that the README and the quick start name.
func TestComposeStartsTheServersOfTheQuickStart(t *testing.T) {
	ports := func(file, pattern string) []string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	started := ports("../compose.yaml", `"127\.0\.0\.1:(\d+):6379"`)
	require.Len(t, started, 3)
	for _, file := range []string{"../README.md", "../examples/quickstart/main.go"} {
		require.Equal(t, started, ports(file, `redis://(?:localhost|127\.0\.0\.1):(\d+)`), file)
	}
}
