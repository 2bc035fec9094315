package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
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
	help := invoke(t, nil, "doctor", "-h").out
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
		require.Contains(t, help, field)
	}
	require.Equal(t, []any{"client|kill"}, r.Nodes[2]["missing_rights"])

	got = invoke(t, nil, "doctor", "--json", "--guard", "1h", "--nodes", nodesOf(all))
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.Equal(t, "none", r.Nodes[0]["guard"])
	require.Equal(t, "down", r.State)
	require.Contains(t, help, "quarantine_ms")

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
	require.Equal(t, []string{"app", "default"}, cli.NodeList{URLs: []string{"redis://app:pw@a", "redis://b"}}.Users())
}

func TestAMasterThatRefusesWritesDoesNotCount(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for _, m := range all[1:] {
		m.FailWith("SET", "NOREPLICAS Not enough good replicas to write.")
	}
	got := invoke(t, nil, "doctor", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitFailed, got.status, got)
	require.Contains(t, got.out, "error    b, c: each refuses writes (NOREPLICAS Not enough good replicas to")
	require.Contains(t, got.out, "1 of 3 can vote, 2 needed: locks can't be taken\n")
	fits(t, got.out)
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
	attempts(t, func() string { // on a busy machine an answer may be too late
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
