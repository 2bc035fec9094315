//go:build unix && !aix && !solaris

package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

func planOf(t *testing.T, args ...string) *runOptions {
	t.Helper()
	c := &cli.Invocation{Env: []string{"REDLOCK_NODES=redis://a, redis://b"}}
	cmd := Subcommand()
	var p *runOptions
	cmd.Define = func(f *pflag.FlagSet) cli.RunFunc {
		p = newRunOptions(f)
		return func(_ context.Context, c *cli.Invocation) int {
			exit, ok := p.read(c)
			require.True(t, ok, exit)
			return exit
		}
	}
	cmd.Bind(c)
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return p
}

func TestWordsOfARunAreReadUpToTheDashes(t *testing.T) {
	t.Parallel()
	p := planOf(t, "--ttl", "20s", "n", "--wait=0", "--", "sh", "--ttl", "--", "-c")
	require.Equal(t, "n", p.Name)
	require.Equal(t, 20*time.Second, p.TTL)
	require.Zero(t, p.Wait)
	require.Equal(t, []string{"sh", "--ttl", "--", "-c"}, p.command)
	require.Equal(t, []string{"redis://a", "redis://b"}, p.URLs)
	require.True(t, strings.HasSuffix(p.program, "/sh"), p.program)
}

func TestTheTTLIs30sUnlessTheGuardAllowsLess(t *testing.T) {
	t.Parallel()
	require.Equal(t, 30*time.Second, planOf(t, "n", "--", "sh").TTL)
	require.Equal(t, 30*time.Second, planOf(t, "n", "--guard", "1m", "--", "sh").TTL)
	require.Equal(t, 5*time.Second, planOf(t, "n", "--guard", "5s", "--", "sh").TTL)
	require.Equal(t, 20*time.Second, planOf(t, "n", "--guard", "5s", "--ttl", "20s", "--", "sh").TTL) // refused later
}

func TestTheGraceIsAThirdOfTheTTLAndAtMost5s(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[string]time.Duration{"30s": 5 * time.Second, "15s": 5 * time.Second, "9s": 3 * time.Second} {
		require.Equal(t, want, planOf(t, "n", "--ttl", ttl, "--", "sh").grace)
	}
	p := planOf(t, "n", "--ttl", "10s", "--grace", "0", "--", "sh")
	require.Zero(t, p.grace)
	require.Equal(t, p.slack(), p.margin()) // it is killed in time all the same
	p = planOf(t, "n", "--ttl", "10ms", "--grace", "0", "--", "sh")
	require.Equal(t, time.Millisecond, p.margin(), "the least margin that WithStopMargin accepts")
}

func TestTheStopMarginLeavesHalfOfTheTTL(t *testing.T) {
	t.Parallel()
	p := planOf(t, "n", "--ttl", "10s", "--grace", "5s", "--", "sh")
	require.Equal(t, 5*time.Second, p.margin())
}

func TestTheEnvironmentOfACommandHasNoSecret(t *testing.T) {
	t.Parallel()
	m, err := fakeredis.Start("a")
	require.NoError(t, err)
	t.Cleanup(m.Close)
	l, err := redlock.Open([]string{m.URL()}, redlock.WithNodeTimeout(cli.ColdTimeout))
	require.NoError(t, err)
	lock, err := l.Acquire(t.Context(), "n", time.Minute)
	require.NoError(t, err)
	const password, secretToken = "sesame-7f3a9c", "somebody:SECRETSECRETSECRETSECRETSE"
	inherited := []string{
		"PATH=/bin", "REDLOCK_NODES=redis://:" + password + "@a", "REDLOCK_NODES_FILE=/run/" + password, "REDLOCK_TOKEN=" + secretToken,
		"REDLOCK_NODESX=kept",
	}
	own := []string{"PATH=/bin", "REDLOCK_NODESX=kept", "REDLOCK_NAME=n", "REDLOCK_ID=" + lock.ID(), "REDLOCK_FENCE="}
	require.Equal(t, own, planOf(t, "n", "--", "sh").environment(inherited, lock))
	require.Equal(t, append(own, "REDLOCK_TOKEN="+lock.Token()), planOf(t, "--export-token", "n", "--", "sh").environment(inherited, lock))
	require.NoError(t, lock.Release(t.Context()))
	require.NoError(t, l.Close(t.Context()))
}
