package doctor

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/redlock"
)

func TestADiagnosisScansNoKeysAndMarksNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(redlock.WithRestartGuard(admitTTL))
		diagnosed(t, l)
		require.Zero(t, fl.count("SCAN"))
		_ = l.Healthy(bg)
		_, err := l.Inspect(bg, "x")
		require.NoError(t, err)
		require.Equal(t, []string{"", "", ""}, fl.markers())
	})
}

// guarding returns how a Locker with these options reports the marker on n1.
func guarding(t *testing.T, fl *testbed, opts ...redlock.Option) (Node, []string) {
	t.Helper()
	l := fl.locker(opts...)
	defer end(l)
	r, _ := diagnosed(t, l)
	var texts []string
	for _, f := range r.Nodes[0].Findings {
		if f.Code == "guard" {
			texts = append(texts, string(f.Grade)+": "+f.Text)
		}
	}
	return r.Nodes[0], texts
}

func TestADiagnosisReportsTheGuardStateOfANode(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		m, guarded := fl.masters[0], redlock.WithRestartGuard(admitTTL)
		requireState := func(opts []redlock.Option, state string, left time.Duration, words string) {
			t.Helper()
			n, texts := guarding(t, fl, opts...)
			require.Equal(t, state, n.Guard)
			require.Equal(t, left, n.Quarantine)
			if words == "" {
				require.Empty(t, texts)
				return
			}
			require.Len(t, texts, 1)
			require.Contains(t, texts[0], words)
		}
		ours := []redlock.Option{guarded}
		requireState(nil, "", 0, "")
		n, _ := guarding(t, fl, ours...)
		require.Equal(t, Note, n.Findings[0].Grade)
		require.Contains(t, n.Findings[0].Text, "forgets locks when it is restarted: the guard keeps it from voting")
		requireState(ours, examine.StateNone, 0, "note: n1 has no marker of the restart guard: the first acquisition quarantines the node for 2m0s")

		l := fl.locker(guarded)
		require.ErrorIs(t, tried(l), redlock.ErrQuarantined)
		time.Sleep(4 * time.Second)
		requireState(ours, examine.StateQuarantined, 116*time.Second, "warning: n1 is quarantined for 1m56s more")
		requireState(nil, examine.StateQuarantined, 116*time.Second, "error: n1 is guarded")
		requireState([]redlock.Option{redlock.WithRestartGuard(time.Minute)}, examine.StateForeign, 0, "error: n1 is guarded by clients with other settings (maxTTL is 2m0s there and 1m0s here)")
		end(l)
		time.Sleep(2 * time.Minute)
		requireState(ours, examine.StateQuarantined, 0, "")

		require.NoError(t, releasedAtOnce(fl.locker(guarded)))
		requireState(ours, examine.StateOK, 0, "")
		requireState(nil, examine.StateOK, 0, "with a maxTTL of 2m0s")
		marker, _ := m.Get(guard.Key)
		require.NoError(t, m.Restart(true))
		requireState(ours, examine.StateOutdated, 0, "warning: n1 was restarted or promoted since it was marked")
		m.Set(guard.Key, strings.Replace(marker, "|n1|", "|n7|", 1), 0)
		requireState(ours, examine.StateForeign, 0, `the node is called "n7" there and "n1" here`)
		m.Set(guard.Key, "1|what|ever", 0)
		requireState(ours, examine.StateUnreadable, 0, "error: n1 has a redlock:guard that can't be read (its version is not 2)")
		m.PushList(guard.Key)
		requireState(ours, examine.StateUnreadable, 0, "(WRONGTYPE")
	})
}

func TestAnotherListOfNodesIsNamed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		_, err := Admit(bg, fl.locker(redlock.WithRestartGuard(admitTTL)))
		require.NoError(t, err)
		less := &testbed{t: fl.t, masters: fl.masters[:1]}
		n, texts := guarding(t, less, redlock.WithRestartGuard(admitTTL))
		require.Equal(t, examine.StateForeign, n.Guard)
		require.Contains(t, texts[0], "the list of the nodes' names is another one")
	})
}

// docs/dev/hazards.md H116.
func TestABacklogThatForgetsItsHistoryIsAWarningUnderTheGuard(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		m := fl.masters[0]
		ttl := "3600"
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if cmd == "CONFIG" && args[1] == "repl-backlog-ttl" && ttl != "" {
				return "*2\r\n$16\r\nrepl-backlog-ttl\r\n+" + ttl, true
			}
			return "", false
		})
		warned := func(opts ...redlock.Option) string {
			var texts strings.Builder
			r, _ := diagnosed(t, fl.locker(opts...))
			for _, f := range r.Nodes[0].Findings {
				if f.Code == "backlog" {
					texts.WriteString(string(f.Grade) + ": " + f.Text)
				}
			}
			return texts.String()
		}
		guarded := redlock.WithRestartGuard(admitTTL)
		require.Empty(t, warned(guarded), "it never had a replica")
		for field, value := range map[string]string{"connected_slaves": "1", "repl_backlog_active": "1", "master_replid2": strings.Repeat("ab", 20)} {
			m.SetInfo(field, value)
			ttl = "3600"
			require.Contains(t, warned(guarded), "warning: n1 has or had replicas, and its repl-backlog-ttl is 3600 s", field)
			require.Contains(t, warned(guarded), "CONFIG SET repl-backlog-ttl 0")
			require.Empty(t, warned(), "it concerns the guard alone")
			ttl = "0"
			require.Empty(t, warned(guarded))
			ttl = ""
			require.Contains(t, warned(guarded), "can't be read")
			m.SetInfo(field, "")
		}
	})
}

func TestTheMarkersOfOthersArePrintable(t *testing.T) {
	for _, marker := range []string{planted, "2|r|0|60000|0|f|" + url.QueryEscape(planted) + "|ok", "2|r|0|60000|0|f|n|" + planted} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.Set(guard.Key, marker, 0) })
			report, _ := diagnosed(t, fl.locker())
			require.True(t, report.Failed())
			l := fl.locker(redlock.WithRestartGuard(admitTTL))
			guarded, _ := diagnosed(t, l)
			require.True(t, guarded.Failed())
			refused, err := Admit(bg, l)
			require.ErrorIs(t, err, ErrNotAdmitted)
			requireShowable(t, err, report, guarded, refused)
		})
	}
}
