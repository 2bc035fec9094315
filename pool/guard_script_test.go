package pool

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// markerOf returns the marker that a master needs in order to vote, with another state.
func markerOf(m *fakeredis.Master, state string) string {
	ok := guardSettings().Marker(m.RunID(), noHistory, "n1")
	return strings.TrimSuffix(ok, "ok") + state
}

// noHistory is the second replication ID of a master that never was a replica.
var noHistory = strings.Repeat("0", 40)

// What a master reports afterwards.
func anotherRun(m *fakeredis.Master)     { m.SetInfo("run_id", otherID) }
func anotherHistory(m *fakeredis.Master) { m.SetInfo("master_replid2", otherID) }
func replica(m *fakeredis.Master)        { m.SetInfo("role", "slave") }

// until is the state of a marker whose quarantine ends at an instant from now on.
func until(left time.Duration) string { return fmt.Sprintf("q%d", time.Now().Add(left).UnixMilli()) }

// verifying has a node verify its marker. With over it may end a quarantine.
func verifying(over bool) *call {
	return newCall(func(r *command.Request) { command.NewVerifyMarker(r, guardSettings(), "n1", over) })
}

// docs/dev/rules.md rule 16: every part of the marker, the server and the clock counts. A marker that
// this client does not understand is another client's, and stays.
func TestTheMarkerIsVerifiedByEachOfItsParts(t *testing.T) {
	type facts struct {
		change func(m *fakeredis.Master)
		marker func(m *fakeredis.Master) string // "" for none
		over   bool
		status guard.Status
		left   time.Duration
		began  bool
		state  string // of this client's marker, afterwards; "" if the marker stays what it was
	}
	state := func(s string) func(m *fakeredis.Master) string {
		return func(m *fakeredis.Master) string { return markerOf(m, s) }
	}
	quarantine := func(left time.Duration) func(m *fakeredis.Master) string {
		return func(m *fakeredis.Master) string { return markerOf(m, until(left)) }
	}
	other := func(old, with string) func(m *fakeredis.Master) string {
		return func(m *fakeredis.Master) string { return strings.Replace(markerOf(m, "ok"), old, with, 1) }
	}
	begins := func(f facts) facts {
		f.status, f.left, f.began, f.state = guard.Quarantined, guardTTL, true, "q"
		return f
	}
	foreign := func(marker func(m *fakeredis.Master) string) facts {
		return facts{marker: marker, over: true, status: guard.Foreign}
	}
	for what, f := range map[string]facts{
		"no marker":       begins(facts{over: true}),
		"a marker":        {marker: state("ok"), status: guard.Marked},
		"another run":     begins(facts{marker: state("ok"), change: anotherRun}),
		"another history": begins(facts{marker: state("ok"), change: anotherHistory}),
		"another run, whose quarantine is over": begins(facts{
			marker: quarantine(-time.Hour), over: true, change: anotherRun,
		}),
		"a replica":                             {marker: state("ok"), status: guard.NoMaster, change: replica},
		"a replica without one":                 {status: guard.NoMaster, change: replica},
		"a quarantine":                          {marker: quarantine(time.Millisecond), over: true, status: guard.Quarantined, left: time.Millisecond},
		"one that is over":                      {marker: quarantine(0), over: true, status: guard.Marked, state: "ok"},
		"one that is over by far":               {marker: quarantine(-time.Hour), over: true, status: guard.Marked, state: "ok"},
		"one that this client waits for longer": {marker: quarantine(-time.Millisecond), status: guard.Quarantined},
		"the longest quarantine":                {marker: quarantine(guardTTL), over: true, status: guard.Quarantined, left: guardTTL},
		"a longer quarantine":                   begins(facts{marker: quarantine(guardTTL + time.Millisecond), over: true}),
		"another version":                       foreign(other("2|", "3|")),
		"other settings":                        foreign(other("|20000|", "|20001|")),
		"an unknown state":                      foreign(state("okay")),
		"a quarantine without an end":           foreign(state("q")),
		"a quarantine with half an end":         foreign(state("q1x")),
		"half a quarantine":                     foreign(state("xq1")),
		"words in front":                        foreign(other("2|", "x2|")),
		"words behind":                          foreign(other("|ok", "|ok!")),
		"no marker at all":                      foreign(func(*fakeredis.Master) string { return "x" }),
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				synctest.Wait()
				time.Sleep(1234567 * time.Microsecond)
				before := ""
				if f.marker != nil {
					before = f.marker(m)
					m.Set(guard.Key, before, 0)
				}
				if f.change != nil {
					f.change(m)
				}
				now := time.Now()
				r := verifying(f.over).On(n).Reply(t)
				require.Equal(t, command.Granted, r.Outcome, "%v", r.Err)
				after, _ := m.Get(guard.Key)
				switch {
				case f.state == "":
					require.Equal(t, before, after)
				case f.began:
					require.True(t, strings.HasSuffix(after, fmt.Sprintf("|q%d", now.Add(guardTTL).UnixMilli())), after)
				default:
					require.Equal(t, markerOf(m, f.state), after)
				}
				want := guard.MarkerStatus{Status: f.status, Left: f.left, JustBegan: f.began}
				if f.status == guard.Marked || f.status == guard.Foreign {
					want.Marker = after
				}
				require.Equal(t, want, *r.MarkerStatus)
			})
		})
	}
}

// A key of another type is no marker, and is left to whoever made it. Any other error says nothing about
// the marker: a quarantine that began for it would replace a good one.
func TestAMarkerThatCannotBeReadStays(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.PushList(guard.Key)
		r := verifying(true).On(n).Reply(t)
		require.Equal(t, command.Granted, r.Outcome, "%v", r.Err)
		require.Equal(t, guard.MarkerStatus{Status: guard.Foreign}, *r.MarkerStatus)
		m.Del(guard.Key)
		m.Set(guard.Key, markerOf(m, "ok"), 0)
		m.Deny("GET")
		require.Equal(t, command.Failed, verifying(true).Outcome(t, n))
		m.Deny()
		require.Equal(t, guard.Marked, verifying(true).On(n).Reply(t).MarkerStatus.Status)
	})
}

// Such a server cannot be told from another one.
func TestAServerThatHidesItsRunIsNotMarked(t *testing.T) {
	for _, field := range []string{"run_id", "master_replid2"} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			synctest.Wait()
			m.SetInfo(field, "?")
			require.ErrorContains(t, verifying(true).On(n).Reply(t).Err, "INFO shows no run_id or master_replid2")
			require.NotContains(t, m.Keys(), guard.Key)
		})
	}
}

// An error in place of the marker would not count as its absence: the lock would not be extended any more.
func TestALockIsExtendedBesideAMarkerOfAnotherType(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		m.Del(guard.Key)
		m.PushList(guard.Key)
		m.Set("k", "A", 100*time.Millisecond)
		require.Equal(t, command.Unknown, extendingUnder("A", "k").Outcome(t, n))
		require.Equal(t, time.Second, m.TTL("k"))
	})
}
