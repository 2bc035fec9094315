//go:build unix

package integration

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// A duty officer tells them apart by the one line that redlock run prints. The TTL is so long that a machine
// that stands still for 4 s gives no other reason.
func TestThreeDisastersAreToldApartByOneLine(t *testing.T) {
	t.Cleanup(redistest.NoGoroutines(t)) // of all three, which run at the same time
	for name, d := range map[string]struct {
		says        string
		least, most int // lines: another one if the command ended after the loss
		happen      func(t *testing.T, nodes []*redistest.Node, r *running)
	}{
		"no quorum for 14 s": {"no quorum has confirmed it since ", 1, 2, func(t *testing.T, nodes []*redistest.Node, _ *running) {
			t.Helper()
			for _, n := range nodes[:2] {
				n.Pause(t)
			}
			time.Sleep(14 * time.Second)
			for _, n := range nodes[:2] {
				n.Unpause(t)
			}
		}},
		"FLUSHALL on all servers": {" of 3 nodes no longer hold it [", 2, 2, func(t *testing.T, nodes []*redistest.Node, _ *running) {
			t.Helper()
			for _, n := range nodes {
				n.Do(t, "FLUSHALL")
			}
		}},
		"a holder that was stopped for 13 s": {"this process did not run for ", 1, 1, func(t *testing.T, _ []*redistest.Node, r *running) {
			t.Helper()
			require.NoError(t, r.Process.Signal(syscall.SIGSTOP))
			time.Sleep(13 * time.Second)
			require.NoError(t, r.Process.Signal(syscall.SIGCONT))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.Start(t, 3)
			c := buildCommand(t, nodes)
			l := open(t, nodes)
			answered(t, l)
			r := c.start(t, "run", "--ttl", "12s", "--grace", "4s", "disaster", "--", "sh", "-c", "echo ready; cat")
			require.Equal(t, "ready", r.line(t))
			heldEverywhere(t, nodes, "disaster")
			d.happen(t, nodes, r)
			status, _ := r.exit(t)
			require.Equal(t, exitLost, status)
			said := strings.Split(strings.TrimSpace(r.stderr.String()), "\n")
			require.GreaterOrEqual(t, len(said), d.least, "%s", &r.stderr)
			require.LessOrEqual(t, len(said), d.most, "%s", &r.stderr)
			for _, last := range said[1:] {
				require.Contains(t, last, " has ended: another client may have held disaster for up to ")
			}
			require.Contains(t, said[0], d.says)
			require.Contains(t, said[0], "another client may have held it for up to ")
		})
	}
}
