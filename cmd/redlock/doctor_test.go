package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// fits fails where a line is wider than a terminal.
func fits(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), columns, line)
	}
}

func TestTheDoctorFindsHealthyNodesFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ env, args []string }{
		{nil, []string{"doctor", "--nodes", nodesOf(masters(t))}},
		{[]string{"REDLOCK_NODES=" + nodesOf(masters(t))}, []string{"doctor"}},
		{nil, []string{"doctor", "--embedded"}},
	} {
		got := invoke(t, c.env, c.args...)
		require.Equal(t, exitOK, got.status, got)
		require.Empty(t, got.err)
		require.Regexp(t, `(?s)^  NODE +ROLE +REDIS +UP +CLOCK +ANSWER +KEEPS\n! \S+ +master +7\.2\.4 +0s +[+-]\S+ms +\S+ms +no AOF\n`, got.out)
		require.Contains(t, got.out, "\nwarning  ")
		require.Contains(t, got.out, "\n3 nodes, fit to hold locks: 0 errors, 3 warnings, 0 notes\n")
		fits(t, got.out)
	}
}

func TestTheDoctorReportsWhatIsWrongAndFails(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[0].SetInfo("role", "slave")
	all[1].Stop()
	got := invoke(t, nil, "doctor", "--nodes", nodesOf(all))
	require.Equal(t, exitFailed, got.status)
	require.Regexp(t, `(?m)^✗ a +replica `, got.out)
	require.Regexp(t, `(?m)^✗ b +– +– +– +– +– +–$`, got.out)
	require.Regexp(t, `(?m)^error    a is a replica: `, got.out)
	require.Regexp(t, `(?m)^error    b could not be examined: `, got.out)
	require.Contains(t, got.out, "3 nodes, not all fit to hold locks: 2 errors, 1 warning, 0 notes\n")
	fits(t, got.out)
}

func TestTheDoctorsReportForProgramsHasTheDocumentedFields(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[2].Deny("CLIENT KILL")
	got := invoke(t, nil, "doctor", "--json", "--nodes", nodesOf(all))
	require.Equal(t, exitOK, got.status)
	var r struct {
		OK    bool
		Nodes []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.True(t, r.OK)
	require.Len(t, r.Nodes, 3)
	for field := range r.Nodes[2] {
		require.Contains(t, doctorAbout, field)
	}
	require.Equal(t, []any{"client|kill"}, r.Nodes[2]["missing_rights"])

	got = invoke(t, nil, "doctor", "--json", "--guard", "1h", "--nodes", nodesOf(all))
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.Equal(t, "none", r.Nodes[0]["guard"])
	require.Contains(t, doctorAbout, "quarantine_ms")

	all[2].SetInfo("redis_mode", "cluster")
	got = invoke(t, nil, "doctor", "--json", "--nodes", nodesOf(all))
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.out, `"ok": false`)
	require.Contains(t, got.out, `"grade": "error"`)
}

func TestTheDoctorAdmitsNewMastersOnceAndSaysWhyNotAgain(t *testing.T) {
	t.Parallel()
	all := masters(t)
	t.Cleanup(func() {
		for _, m := range all {
			m.Del("redlock:guard")
		}
	})
	guard := []string{"doctor", "--nodes", nodesOf(all), "--guard", "1h"}
	got := invoke(t, nil, guard...)
	require.Equal(t, exitOK, got.status, got)
	require.Regexp(t, `(?m)^  NODE .* KEEPS +GUARD\n✓ a .* no AOF +none$`, got.out)
	require.Contains(t, got.out, "note     a has no marker of the restart guard")
	fits(t, got.out)
	for _, m := range all {
		require.Empty(t, m.Keys(), "to look changes nothing")
	}

	got = invoke(t, nil, append(guard, "--admit")...)
	require.Equal(t, exitOK, got.status, got)
	require.Regexp(t, `(?m)^✓ a .* no AOF +ok$`, got.out)
	require.Contains(t, got.out, "\nThey are admitted: clients can start.\n")
	fits(t, got.out)

	all[1].Del("redlock:guard")
	got = invoke(t, nil, append(guard, "--admit")...)
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.out, "error    a already has a marker (ok), so clients use these")
	require.NotContains(t, got.out, "They are admitted")
	fits(t, got.out)

	got = invoke(t, nil, append(guard, "--json")...)
	require.Equal(t, exitOK, got.status)
	require.Contains(t, got.out, `"guard": "none"`)

	got = invoke(t, nil, "doctor", "--nodes", nodesOf(all))
	require.Equal(t, exitFailed, got.status, "clients without the guard are refused there")
	require.Contains(t, strings.Join(strings.Fields(got.out), " "), "(redlock: --guard)")
	fits(t, got.out)
	got = invoke(t, nil, "status", "--nodes", nodesOf(all), "job")
	require.Equal(t, exitOK, got.status, got)
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
	printReport(&printer{w: &out}, r)
	fits(t, out.String())
	require.Contains(t, out.String(), "universe.eu:6379/0")
	require.Contains(t, out.String(), "1000d")
	require.Contains(t, out.String(), "+3600s")
	require.Contains(t, out.String(), "\nnote     words")
	require.Contains(t, out.String(), "\n         words")

	r.Nodes[0].Guard, r.Nodes[0].Quarantine = doctor.GuardQuarantined, 365*24*time.Hour
	r.Nodes[1].Guard, r.Nodes[2].Guard = doctor.GuardUnreadable, doctor.GuardForeign
	out.Reset()
	printReport(&printer{w: &out}, r)
	fits(t, out.String())
	require.Regexp(t, ` everysec +wait 365d\n`, out.String())
	require.Contains(t, out.String(), "unreadable")
}
