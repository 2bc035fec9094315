package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// grades returns all findings of a report in short form.
func grades(r *doctor.Report) (short []string) {
	for _, f := range r.All() {
		short = append(short, string(f.Grade)+" "+f.Code)
	}
	return short
}

func TestADiagnosisScansNoKeysAndMarksNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithRestartGuard(admitTTL))
		diagnosed(t, l)
		require.Zero(t, fl.count("SCAN"))
		_ = l.Healthy(bg)
		_, err := l.Inspect(bg, "x")
		require.NoError(t, err)
		require.Equal(t, []string{"", "", ""}, fl.markers())
	})
}

// guarding returns how a Locker with these options reports the marker on n1.
func guarding(t *testing.T, fl *testbed, opts ...Option) (doctor.Node, []string) {
	t.Helper()
	l := fl.locker(opts...)
	defer func() {
		for _, n := range l.nodes {
			_ = n.(*pool.Node).Close()
		}
	}()
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
		m, guarded := fl.masters[0], WithRestartGuard(admitTTL)
		requireState := func(opts []Option, state string, left time.Duration, words string) {
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
		ours := []Option{guarded}
		requireState(nil, "", 0, "")
		n, _ := guarding(t, fl, ours...)
		require.Equal(t, doctor.Note, n.Findings[0].Grade)
		require.Contains(t, n.Findings[0].Text, "forgets locks when it is restarted: the guard keeps it from voting")
		requireState(ours, guard.StateNone, 0, "note: n1 has no marker of the restart guard: the first acquisition quarantines the node for 2m0s")

		l := fl.locker(guarded)
		require.ErrorIs(t, tried(l), ErrQuarantined)
		time.Sleep(4 * time.Second)
		requireState(ours, guard.StateQuarantined, 116*time.Second, "warning: n1 is quarantined for 1m56s more")
		requireState(nil, guard.StateQuarantined, 116*time.Second, "error: n1 is guarded")
		requireState([]Option{WithRestartGuard(time.Minute)}, guard.StateForeign, 0, "error: n1 is guarded by clients with other settings (maxTTL is 2m0s there and 1m0s here)")
		fl.close(l)
		time.Sleep(2 * time.Minute)
		requireState(ours, guard.StateQuarantined, 0, "")

		require.NoError(t, releasedAtOnce(fl.locker(guarded)))
		requireState(ours, guard.StateOK, 0, "")
		requireState(nil, guard.StateOK, 0, "with a maxTTL of 2m0s")
		marker, _ := m.Get(guard.Key)
		require.NoError(t, m.Restart(true))
		requireState(ours, guard.StateOutdated, 0, "warning: n1 was restarted or promoted since it was marked")
		m.Set(guard.Key, strings.Replace(marker, "|n1|", "|n7|", 1), 0)
		requireState(ours, guard.StateForeign, 0, `the node is called "n7" there and "n1" here`)
		m.Set(guard.Key, "1|what|ever", 0)
		requireState(ours, guard.StateUnreadable, 0, "error: n1 has a redlock:guard that can't be read (its version is not 2)")
		m.PushList(guard.Key)
		requireState(ours, guard.StateUnreadable, 0, "(WRONGTYPE")
	})
}

func TestAnotherListOfNodesIsNamed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		_, err := fl.locker(WithRestartGuard(admitTTL)).Admit(bg)
		require.NoError(t, err)
		less := fl.process()
		less.masters = fl.masters[:1]
		n, texts := guarding(t, less, WithRestartGuard(admitTTL))
		require.Equal(t, guard.StateForeign, n.Guard)
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
		warned := func(opts ...Option) string {
			var texts strings.Builder
			r, _ := diagnosed(t, fl.locker(opts...))
			for _, f := range r.Nodes[0].Findings {
				if f.Code == "backlog" {
					texts.WriteString(string(f.Grade) + ": " + f.Text)
				}
			}
			return texts.String()
		}
		guarded := WithRestartGuard(admitTTL)
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

// docs/dev/hazards.md H112: a client without the guard may read guarded nodes, and do nothing else.
func TestAClientWithoutTheGuardMayOnlyInspectGuardedNodes(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ours := fl.locker(WithRestartGuard(admitTTL))
		_, err := ours.Admit(bg)
		require.NoError(t, err)
		k, err := ours.Acquire(bg, "y", time.Minute)
		require.NoError(t, err)
		claim, err := k.Detach()
		require.NoError(t, err)

		l := fl.process().locker()
		for range 2 { // also after a read was allowed
			s, err := l.Inspect(bg, "y")
			require.NoError(t, err)
			require.True(t, s.Held)
			matches(t, tried(l), ErrNoQuorum, ErrUnfit)
			matches(t, l.Healthy(bg), ErrNoQuorum, ErrUnfit)
			_, err = l.Resume(bg, claim)
			matches(t, err, ErrNoQuorum, ErrUnfit)
			require.ErrorContains(t, err, "use WithRestartGuard")
		}
	})
}
