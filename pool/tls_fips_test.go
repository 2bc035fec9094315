package pool

import (
	"crypto/sha1"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// underFIPS is set for the process in which only FIPS 140 algorithms are allowed.
const underFIPS = "REDLOCK_TEST_UNDER_FIPS"

// docs/dev/rules.md rule 27: where SHA-1 panics the packages start, and scripts are called.
func TestScriptsAreCalledWithoutSHA1(t *testing.T) {
	if os.Getenv(underFIPS) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), underFIPS+"=1", "GODEBUG=fips140=only")
		out, err := again.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	require.Panics(t, func() { sha1.Sum(nil) }, "the control")
	forgetful := 0
	l := fake(func(name string, args []string) (string, error) {
		if name == "EVALSHA" && forgetful < 5 {
			forgetful++
			return "-NOSCRIPT No matching script.\r\n", nil
		}
		if name == "EVAL" {
			return ":1\r\n", nil
		}
		return wellBehaved(name, args)
	}).listen(t, "tcp", "127.0.0.1:0")
	cfg, err := ParseURL("redis://:hunter2@" + l.Addr().String())
	require.NoError(t, err)
	n, err := Open(unhurried(cfg))
	require.NoError(t, err)
	defer n.Close()
	token := command.NewToken("owner")
	for range 4 {
		for _, c := range []*call{
			acquiring(token, longTTL, "k"), acquiring(token, longTTL, "k", "l"), extending(token, longTTL, "k"),
			releasing(token, "k"), shortening(token, longTTL, "k"),
		} {
			r := c.On(n).Reply(t)
			require.Equal(t, command.Granted, r.Outcome, "%v: %v", c.Req.Op, r.Err)
		}
	}
	require.Equal(t, command.Granted, inspecting("k", "l").Outcome(t, n))
	require.Equal(t, 5, forgetful)
}
