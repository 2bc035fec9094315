package doctor

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// fitting fails where a line is wider than a terminal.
func fitting(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), terminal.Columns, line)
	}
}

func TestAReportFitsATerminalWhateverIsInIt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("name-of-the-universe.", 8)
	r := &doctor.Report{Nodes: []doctor.Node{
		{
			Node: long + "eu:6379/0", Answered: true, Version: "255.255.255", Role: "sentinel", Uptime: 1000 * 24 * time.Hour,
			Persistence: "AOF, fsync everysec", ClockRead: true, ClockOffset: -999 * time.Millisecond, RoundTrip: 500 * time.Millisecond,
		},
		{Node: "b", Answered: true, Uptime: 3 * time.Hour, ClockRead: true, ClockOffset: time.Hour},
		{Node: "c", Answered: true, Uptime: 3 * time.Minute, Findings: []doctor.Finding{
			{Grade: doctor.Note, Code: "x", Text: strings.Repeat("words that are many ", 20)},
		}},
	}}
	var out strings.Builder
	printReport(&terminal.Printer{W: &out}, r, nil)
	fitting(t, out.String())
	require.Contains(t, out.String(), "universe.eu:6379/0")
	require.Contains(t, out.String(), "1000d")
	require.Contains(t, out.String(), "3 of 3 can vote, 2 needed: locks can be taken\n")
	require.Contains(t, out.String(), "+3600s")
	require.Contains(t, out.String(), "\nnote     words")
	require.Contains(t, out.String(), "\n         words")

	r.Nodes[0].Guard, r.Nodes[0].Quarantine = examine.StateQuarantined, 365*24*time.Hour
	r.Nodes[1].Guard, r.Nodes[2].Guard = examine.StateUnreadable, examine.StateForeign
	out.Reset()
	printReport(&terminal.Printer{W: &out}, r, nil)
	fitting(t, out.String())
	require.Regexp(t, ` everysec +wait 365d\n`, out.String())
	require.Contains(t, out.String(), "unreadable")
}

func TestOneFindingOverSeveralNodesIsPrintedOnce(t *testing.T) {
	t.Parallel()
	note := func(text string) doctor.Finding { return doctor.Finding{Grade: doctor.Note, Code: "x", Text: text} }
	r := &doctor.Report{
		Nodes: []doctor.Node{
			{Node: "a", Findings: []doctor.Finding{note("a sleeps"), note("a snores"), note("unnamed")}},
			{Node: "b", Findings: []doctor.Finding{note("b sleeps"), {Grade: doctor.Warning, Code: "x", Text: "b snores"}}},
			{Node: "c", Findings: []doctor.Finding{note("c sleeps"), note("c snores")}},
		},
		Findings: []doctor.Finding{note("a sleeps")},
	}
	var texts []string
	for _, f := range grouped(r) {
		texts = append(texts, string(f.Grade)+" "+f.Text)
	}
	require.Equal(t, []string{
		"note all 3 nodes: each sleeps", "note a, c: each snores", "note unnamed", "warning b snores", "note a sleeps",
	}, texts)
	one := &doctor.Report{Nodes: r.Nodes[:1]}
	require.Equal(t, r.Nodes[0].Findings, grouped(one))
}

func TestTheBallotCountsTheNodesThatVoteNow(t *testing.T) {
	t.Parallel()
	fit := doctor.Node{Answered: true}
	wrong := doctor.Node{Answered: true, Findings: []doctor.Finding{{Grade: doctor.Error, Code: "replica"}}}
	warned := doctor.Node{Answered: true, Findings: []doctor.Finding{{Grade: doctor.Warning}, {Grade: doctor.Error, Code: "admission"}}}
	guarded := func(s string, wait time.Duration) doctor.Node {
		return doctor.Node{Answered: true, Guard: s, Quarantine: wait}
	}
	ok, over := guarded(examine.StateOK, 0), guarded(examine.StateQuarantined, 0)
	short, long := guarded(examine.StateQuarantined, 1500*time.Millisecond), guarded(examine.StateQuarantined, time.Hour)
	one := doctor.Node{Answered: true, RunID: "1"}
	for _, c := range []struct {
		want  string
		nodes []doctor.Node
	}{
		{"1 of 1 can vote, 1 needed: locks can be taken", []doctor.Node{fit}},
		{"2 of 3 can vote, 2 needed: locks can be taken", []doctor.Node{fit, wrong, warned}},
		{"1 of 3 can vote, 2 needed: locks can't be taken", []doctor.Node{fit, wrong, {}}},
		{"2 of 4 can vote, 3 needed: locks can't be taken", []doctor.Node{fit, fit, wrong, wrong}},
		{"1 of 2 can vote, 2 needed: locks can't be taken", []doctor.Node{one, one}},
		{"2 of 3 can vote, 2 needed: locks can be taken", []doctor.Node{ok, over, long}},
		{"1 of 3 can vote, 2 needed: locks can't be taken for 2s more", []doctor.Node{ok, long, short}},
		{"0 of 3 can vote, 2 needed: locks can't be taken for 1h0m0s more", []doctor.Node{wrong, long, short}},
		{"0 of 3 can vote, 2 needed: locks can't be taken", []doctor.Node{short, guarded(examine.StateNone, 0), guarded(examine.StateOutdated, 0)}},
	} {
		require.Equal(t, c.want, ballotOf(&doctor.Report{Nodes: c.nodes}).String())
	}
}

func TestAnAgeIsNotRoundedToItsLargestUnit(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 119 * time.Second: "1m59s", 11*time.Minute + 59*time.Second: "11m",
		119 * time.Minute: "1h59m", 2 * time.Hour: "2h", 2*time.Hour + time.Second: "2h", 47 * time.Hour: "1d23h", 1000 * 24 * time.Hour: "1000d",
	} {
		require.Equal(t, want, age(d))
	}
}

func TestEachUserIsGrantedWhatItLacksInOneLine(t *testing.T) {
	t.Parallel()
	r := &doctor.Report{Nodes: []doctor.Node{
		{MissingRights: []string{"mget", "~redlock:guard"}}, {MissingRights: []string{"ping"}}, {MissingRights: []string{"mget", "&redlock:free:*"}},
	}}
	require.Equal(t, []string{"ACL SETUSER app +mget ~redlock:guard &redlock:free:*", "ACL SETUSER ops +ping"},
		missingRights(r, []string{"app", "ops", "app"}))
	require.Nil(t, missingRights(&doctor.Report{Nodes: make([]doctor.Node, 3)}, nil))
}
