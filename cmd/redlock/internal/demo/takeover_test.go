package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

func init() { cli.Lengthen() } // a busy machine may stop a process for seconds

func TestALockThatLiesIdleIsAFaultOnlyIfTheNodesAnswered(t *testing.T) {
	t.Parallel()
	m, err := fakeredis.Start("a")
	require.NoError(t, err)
	t.Cleanup(m.Close)
	l, err := redlock.Open([]string{m.URL()}, redlock.WithNodeTimeout(cli.Slowed(500*time.Millisecond)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(t.Context())) })
	dora, err := l.TryAcquire(t.Context(), "leader", cli.Slowed(time.Second))
	require.NoError(t, err)
	<-dora.Context().Done()

	until := clock.System().Now()
	wall := time.Now()
	for name, c := range map[string]struct {
		failed error
		fault  string
	}{
		"refused":            {redlock.ErrHeld, "the lock lay idle for "},
		"nothing was tried":  {nil, "the lock lay idle for "},
		"no node answered":   {redlock.ErrNoQuorum, ""},
		"they answered late": {redlock.ErrTooLate, ""},
	} {
		tries := make(tried, 3)
		tries.add(redlock.RoundEvent{EventInfo: redlock.EventInfo{At: wall.Add(-time.Second)}, Err: redlock.ErrNoQuorum}) // before it was free
		at := redlock.EventInfo{At: wall.Add(time.Second)}
		if c.failed != nil {
			tries.add(redlock.RoundEvent{EventInfo: at, Err: c.failed})
		}
		tries.add(redlock.RoundEvent{EventInfo: at})
		var out strings.Builder
		show := &timeline{show: &show{Printer: &terminal.Printer{W: &out}, clock: clock.System()}, began: until}
		err := show.judge(dora, until, until, until.Add(cli.Slowed(time.Second)+time.Millisecond), tries)
		if c.fault == "" {
			require.NoError(t, err, name)
			require.Contains(t, out.String(), "the nodes were slow", name)
			require.Contains(t, out.String(), "never two holders", name)
			continue
		}
		require.ErrorContains(t, err, c.fault, name)
	}
}
