package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// fits fails where a line is wider than a terminal.
func fits(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), terminal.Columns, line)
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
		require.Equal(t, cli.ExitOK, got.status, got)
		require.Empty(t, got.err)
		require.Regexp(t, `(?s)^  NODE +ROLE +REDIS +UP +CLOCK +ANSWER +KEEPS\n! \S+ +master +7\.2\.4 +\d+s +[+-]\S+ms +\S+ms +no AOF\n`, got.out)
		require.Contains(t, got.out, "\nwarning  ")
		require.Regexp(t, `(?m)^warning  all 3 nodes: each forgets locks when it is restarted: use the restart$`, got.out)
		require.True(t, strings.HasSuffix(got.out, "\n3 nodes: 0 errors, 3 warnings, 0 notes\n3 of 3 can vote, 2 needed: locks can be taken\n"), got.out)
		fits(t, got.out)
	}
}

func TestTheDoctorReportsWhatIsWrongAndFails(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[0].SetInfo("role", "slave")
	all[1].Stop()
	got := invoke(t, nil, "doctor", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitFailed, got.status)
	require.Regexp(t, `(?m)^✗ a +replica `, got.out)
	require.Regexp(t, `(?m)^✗ b +– +– +– +– +– +–$`, got.out)
	require.Regexp(t, `(?m)^error    a is a replica: `, got.out)
	require.Regexp(t, `(?m)^error    b could not be examined: `, got.out)
	require.True(t, strings.HasSuffix(got.out, "\n3 nodes: 2 errors, 1 warning, 0 notes\n1 of 3 can vote, 2 needed: locks can't be taken\n"), got.out)
	fits(t, got.out)
}

func TestTheDoctorsReportForProgramsHasTheDocumentedFields(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[2].Deny("CLIENT KILL")
	got := invoke(t, nil, "doctor", "--json", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitOK, got.status)
	var r struct {
		OK    bool
		State string
		Nodes []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.True(t, r.OK)
	require.Equal(t, "ok", r.State)
	require.Len(t, r.Nodes, 3)
	for field := range r.Nodes[2] {
		require.Contains(t, doctorAbout, field)
	}
	require.Equal(t, []any{"client|kill"}, r.Nodes[2]["missing_rights"])

	got = invoke(t, nil, "doctor", "--json", "--guard", "1h", "--nodes", nodesOf(all))
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.Equal(t, "none", r.Nodes[0]["guard"])
	require.Equal(t, "down", r.State)
	require.Contains(t, doctorAbout, "quarantine_ms")

	all[2].SetInfo("redis_mode", "cluster")
	got = invoke(t, nil, "doctor", "--json", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitFailed, got.status)
	require.Contains(t, got.out, `"ok": false`)
	require.Contains(t, got.out, `"state": "degraded"`)
	require.Contains(t, got.out, `"grade": "error"`)
}

func TestTheDoctorGrantsWhatIsMissingInOneLine(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[1].Deny("MGET")
	all[2].Deny("CLIENT KILL")
	got := invoke(t, nil, "doctor", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Contains(t, got.out, "\nIn redis-cli, on each node whose user lacks rights, this grants what is missing:\nACL SETUSER default +mget +client|kill\n")

	r := &doctor.Report{Nodes: []doctor.Node{
		{MissingRights: []string{"mget", "~redlock:guard"}}, {MissingRights: []string{"ping"}}, {MissingRights: []string{"mget", "&redlock:free:*"}},
	}}
	require.Equal(t, []string{"ACL SETUSER app +mget ~redlock:guard &redlock:free:*", "ACL SETUSER ops +ping"},
		missingRights(r, []string{"app", "ops", "app"}))
	require.Nil(t, missingRights(&doctor.Report{Nodes: make([]doctor.Node, 3)}, nil))
	require.Equal(t, []string{"app", "default"}, cli.NodeList{URLs: []string{"redis://app:pw@a", "redis://b"}}.Users())
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
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Regexp(t, `(?m)^  NODE .* KEEPS +GUARD\n✓ a .* no AOF +none$`, got.out)
	require.Contains(t, got.out, "note     all 3 nodes: each has no marker of the restart guard")
	require.Contains(t, got.out, "0 of 3 can vote, 2 needed: locks can't be taken\n")
	require.Contains(t, strings.Join(strings.Fields(got.out), " "), "the guard keeps it from voting for 1h0m0s afterwards")
	fits(t, got.out)
	allAnswered(t, all...)
	for _, m := range all {
		require.Empty(t, m.Keys(), "to look changes nothing")
	}

	got = invoke(t, nil, append(guard, "--admit")...)
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Regexp(t, `(?m)^✓ a .* no AOF +ok$`, got.out)
	require.Contains(t, got.out, "\nThey are admitted: clients can start.\n")
	fits(t, got.out)

	all[1].Del("redlock:guard")
	got = invoke(t, nil, append(guard, "--admit")...)
	require.Equal(t, cli.ExitFailed, got.status)
	require.Contains(t, got.out, "error    a, c: each already has a marker (ok), so clients use these")
	require.NotContains(t, got.out, "They are admitted")
	fits(t, got.out)

	got = invoke(t, nil, append(guard, "--json")...)
	require.Equal(t, cli.ExitOK, got.status)
	require.Contains(t, got.out, `"guard": "none"`)

	got = invoke(t, nil, "doctor", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitFailed, got.status, "clients without the guard are refused there")
	require.Contains(t, strings.Join(strings.Fields(got.out), " "), "(redlock --guard)")
	fits(t, got.out)
	got = invoke(t, nil, "status", "--nodes", nodesOf(all), "job")
	require.Equal(t, cli.ExitOK, got.status, got)
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
	fits(t, out.String())
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
	fits(t, out.String())
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

func TestTheDoctorSaysWhatAnswersAtAWrongPort(t *testing.T) {
	t.Parallel()
	served := func(greeting string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_, _ = io.WriteString(conn, greeting)
					for lines := bufio.NewReader(conn); ; {
						line, err := lines.ReadString('\n')
						if err != nil {
							return
						}
						if greeting == "" && line == "PING\r\n" {
							_, _ = io.WriteString(conn, "+PONG\r\n")
						}
					}
				}()
			}
		}()
		return l.Addr().String()
	}
	// A Redis without TLS waits for more after the first message of TLS.
	nodes := "rediss://" + served("") + "?name=a,redis://" + served("HTTP/1.1 400 Bad Request\r\n\r\n") + "?name=b,redis://" + served("SSH-2.0-x\r\n") + "?name=c"
	attempts(t, 3, func() string { // on a busy machine an answer may be too late
		got := invoke(t, nil, "doctor", "--nodes", nodes)
		require.Equal(t, cli.ExitFailed, got.status)
		fits(t, got.out)
		text := strings.Join(strings.Fields(got.out), " ")
		for _, want := range []string{
			"a could not be examined: pool: no connection to rediss://127.0.0.1:",
			"the server does not speak TLS on this port: use no TLS there (redis:// in the URL)",
			"b could not be examined: pool: an HTTP server answered, and no Redis: correct the port",
			"c could not be examined: pool: an SSH server answered, and no Redis: correct the port",
		} {
			if !strings.Contains(text, want) {
				return text
			}
		}
		return ""
	})
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
