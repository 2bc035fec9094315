package examine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
)

var (
	noHistory = strings.Repeat("0", 40) // the second replication ID of a master that never was a replica
	otherID   = strings.Repeat("ab", 20)
)

// markerOf returns the marker that a master needs in order to vote, with another state.
func markerOf(m *fakeredis.Master, state string) string {
	return strings.TrimSuffix(guardSettings().Marker(m.RunID(), noHistory, "n1"), "ok") + state
}

// admitting admits a node until an instant from now on, if its server is still the one that it was.
func admitting(t *testing.T, n *pool.Node, found *Diagnosis, left time.Duration) (Admission, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, command.ErrTimeout)
	defer cancel()
	return Admit(ctx, n, guardSettings(), found, time.Now().Add(left).UnixMicro())
}

func found(m *fakeredis.Master) *Diagnosis {
	return &Diagnosis{Facts: command.Facts{RunID: m.RunID(), ReplID2: noHistory}}
}

// docs/dev/rules.md rule 17: otherwise a server would vote that may have forgotten locks since it was looked at.
func TestOnlyTheServerThatWasLookedAtIsAdmittedAndInTime(t *testing.T) {
	set := func(field, value string) func(m *fakeredis.Master) {
		return func(m *fakeredis.Master) { m.SetInfo(field, value) }
	}
	for what, c := range map[string]struct {
		change func(m *fakeredis.Master)
		left   time.Duration
		marker string // the state of the marker before, or "list"
		want   Admission
		error  string
	}{
		"the server":                    {want: Admitted},
		"too late":                      {left: -time.Microsecond, want: Failed, error: "came too late"},
		"another run":                   {change: set("run_id", otherID), want: Failed, error: "not the server"},
		"another history":               {change: set("master_replid2", otherID), want: Failed, error: "not the server"},
		"a hidden run":                  {change: set("run_id", "?"), want: Failed, error: "INFO shows no run_id or master_replid2"},
		"a replica":                     {change: set("role", "slave"), want: NoMaster},
		"a quarantine":                  {marker: "q1", want: Marked},
		"the marker to be written":      {marker: "ok", want: Admitted},
		"a marker, and a late question": {marker: "q1", left: -time.Hour, want: Marked},
		"a marker of another run":       {marker: "ok", change: set("run_id", otherID), want: Marked},
		"another key":                   {marker: "list", want: Failed, error: "WRONGTYPE"},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
				time.Sleep(1234567 * time.Microsecond)
				before := ""
				switch c.marker {
				case "":
				case "list":
					m.PushList(guard.Key)
				default:
					before = markerOf(m, c.marker)
					m.Set(guard.Key, before, 0)
				}
				looked, marked := found(m), markerOf(m, "ok")
				if c.change != nil {
					c.change(m)
				}
				result, err := admitting(t, n, looked, c.left)
				require.Equal(t, c.want, result, "%v", err)
				if c.error == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.error)
				}
				after, _ := m.Get(guard.Key)
				if c.want == Admitted {
					before = marked
				}
				require.Equal(t, before, after)
			})
		})
	}
}

// A user may have the right to EVAL or that to EVALSHA, and a server may forget scripts.
func TestAnAdmissionNeedsOneOfTheRightsToRunAScript(t *testing.T) {
	for what, prepare := range map[string]func(m *fakeredis.Master){
		"no EVAL":        func(m *fakeredis.Master) { m.Deny("EVAL") },
		"no SCRIPT LOAD": func(m *fakeredis.Master) { m.Deny("SCRIPT LOAD") },
		"forgotten":      func(m *fakeredis.Master) { m.FailWith("EVALSHA", "NOSCRIPT No matching script") },
	} {
		onMaster(t, prepare, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
			result, err := admitting(t, n, found(m), 0)
			require.NoError(t, err, what)
			require.Equal(t, Admitted, result, what)
			marker, _ := m.Get(guard.Key)
			require.Equal(t, markerOf(m, "ok"), marker)
		})
	}
}

// The operator must know whether the node may vote.
func TestAnAdmissionWithoutAnAnswerMayHaveBeenExecuted(t *testing.T) {
	for what, f := range map[string]struct {
		cmd  string // before which the master freezes
		want Admission
	}{
		"not sent": {"INFO", Failed},
		"loading":  {"SCRIPT", Failed},
		"sent":     {"EVALSHA", Unanswered},
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
			looked := found(m)
			m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				if cmd == f.cmd {
					m.Freeze()
				}
				return "", false
			})
			result, err := admitting(t, n, looked, time.Second)
			require.Equal(t, f.want, result, what)
			require.ErrorIs(t, err, command.ErrTimeout)
			m.Unfreeze()
		})
	}
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.FailWith("EVALSHA", "+what?")
		result, _ := admitting(t, n, found(m), time.Second)
		require.Equal(t, Unanswered, result)
	})
}
