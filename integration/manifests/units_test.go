package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

const units = "../../deploy/systemd"

// unit returns the text of a unit, without comments, with its continued lines joined.
func unit(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(units, name))
	require.NoError(t, err)
	joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(text), "")
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(joined, "")
}

// Only the folders differ. /etc/redlock/redis.conf is the file of deploy/kubernetes.
func TestTheUnitOfAServerHasTheArgumentsOfTheStatefulSet(t *testing.T) {
	text := unit(t, "redlock-server.service")
	_, args, _ := strings.Cut(text, "ExecStart=/usr/bin/redis-server ")
	args, _, _ = strings.Cut(args, "\n")
	words := strings.Fields(args)
	want := of[*appsv1.StatefulSet](render(t, "base/servers"))[0].Spec.Template.Spec.Containers[0].Args
	require.Equal(t, append([]string{"/etc/redlock/redis.conf", "--supervised", "systemd"}, options(want)...),
		append(words[:3:3], options(words[3:])...))
	for _, line := range []string{
		"Type=notify", "TimeoutStartSec=infinity", "Restart=always", // a server that loads is not killed
		"After=network-online.target time-sync.target", // the clock is set before it starts
	} {
		require.Contains(t, text, line+"\n")
	}
	require.NotRegexp(t, `CPUQuota|WatchdogSec`, text)
}

func options(args []string) (found []string) {
	for _, a := range args {
		if strings.HasPrefix(a, "--") {
			found = append(found, a)
		}
	}
	return found
}

func TestTheUnitOfAJobHasTheFlagsOfTheCronJobAndTimeToStop(t *testing.T) {
	text := unit(t, "redlock-report.service")
	for _, flag := range []string{
		"--ttl=30s", "--min-hold=1m", "--skip-status=0", "REDLOCK_NODES_FILE=%d/nodes",
		"REDLOCK_PREFIX=app/",
	} {
		require.Contains(t, text, flag)
	}
	require.Contains(t, text, "KillMode=mixed\n")
	require.Contains(t, text, "TimeoutStopSec=60\n")
	require.NotContains(t, text, "CPUQuota")
	timer := unit(t, "redlock-report.timer")
	require.Contains(t, timer, "Persistent=false\n")
	require.Contains(t, timer, "UTC\n")
}

func TestTheUnitsAreValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	verify := func(spoil func(string) string) ([]byte, error) {
		// The programs need not be here.
		programs := regexp.MustCompile(`/usr/(local/)?bin/[a-z-]+`)
		names, err := os.ReadDir(units)
		require.NoError(t, err)
		args := []string{"verify", "--man=no"}
		dir := t.TempDir()
		for _, n := range names {
			text, err := os.ReadFile(filepath.Join(units, n.Name()))
			require.NoError(t, err)
			path := filepath.Join(dir, n.Name())
			require.NoError(t, os.WriteFile(path, []byte(spoil(programs.ReplaceAllString(string(text), "/bin/true"))), 0o600))
			args = append(args, path)
		}
		return exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	}
	out, err := verify(func(s string) string { return s })
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "Unknown")
	out, _ = verify(func(s string) string { return strings.Replace(s, "LimitNOFILE", "LimitFiles", 1) })
	require.Contains(t, string(out), "Unknown", "it notices an unknown line")
}
