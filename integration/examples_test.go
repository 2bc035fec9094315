package integration

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// The examples' own tests run them on servers in memory. An example exits with status 0 only if it
// ended as described.
func TestEveryExampleSucceedsOnRealServers(t *testing.T) {
	nodes := strings.Join(redistest.URLs(redistest.Start(t, 3)), ",")
	folder := t.TempDir()
	out, err := exec.Command("go", "build", "-o", folder+"/", "./examples/...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	programs, err := filepath.Glob(folder + "/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(programs), 5)
	for _, p := range programs {
		t.Run(filepath.Base(p), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*redistest.Slack*patience)
			defer cancel()
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(ctx, p, "--nodes", nodes)
			cmd.Stdout, cmd.Stderr = &out, &errs
			assert.NoError(t, cmd.Run())
			assert.Empty(t, errs.String())
			assert.NotEmpty(t, out.String())
			t.Logf("%s", &out)
		})
	}
}
