package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// outcome is what an invocation in this process printed and returned.
type outcome struct {
	status   int
	out, err string
}

func invoke(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	return invokeWith(t, "", env, args...)
}

// invokeWith gives it something to read.
func invokeWith(t *testing.T, input string, env []string, args ...string) outcome {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(path, []byte(input), 0o600))
	stdin, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	var files [2]*os.File
	for i := range files {
		files[i], err = os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer func() { _ = files[i].Close() }()
	}
	status := execute(context.Background(), args, env, stdin, files[0], files[1])
	var text [2]string
	for i, f := range files {
		_, err := f.Seek(0, io.SeekStart)
		require.NoError(t, err)
		b, err := io.ReadAll(f)
		require.NoError(t, err)
		text[i] = string(b)
	}
	return outcome{status, text[0], text[1]}
}

func TestHelpIsPrintedOnRequest(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		got := invoke(t, nil, args...)
		require.Equal(t, cli.ExitOK, got.status)
		require.Empty(t, got.err)
		for _, cmd := range commands() {
			require.Contains(t, got.out, "\n  "+cmd.Name()+" ")
		}
	}
	for _, cmd := range commands() {
		for _, args := range [][]string{{"help", cmd.Name()}, {cmd.Name(), "-h"}, {cmd.Name(), "--help"}} {
			got := invoke(t, nil, args...)
			require.Equal(t, cli.ExitOK, got.status, args)
			require.Empty(t, got.err)
			require.True(t, strings.HasPrefix(got.out, "redlock "+cmd.Name()+": "+cmd.Short+".\n\n"), got.out)
			require.Contains(t, got.out, "\nUsage:\n  redlock "+cmd.Name()+" ")
			require.Regexp(t, `\nExit status:\n  (n|0) +\S`, got.out)
			require.Regexp(t, `\n  64 +wrong usage\n`, got.out)
			require.Regexp(t, `\nExamples:\n  .*redlock `+cmd.Name(), got.out)
			for line := range strings.Lines(got.out) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 95, line)
			}
		}
	}
}

func TestWrongUsageIs64AndSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	nodes := []string{"REDLOCK_NODES=redis://127.0.0.1:1"}
	for _, c := range []struct {
		says string
		env  []string
		args []string
	}{
		{"Available Commands:\n  acquire ", nil, nil},
		{"there is no command \"stauts\": did you mean status?\nredlock: `redlock help` lists", nil, []string{"stauts"}},
		{"there is no command \"stauts\": did you mean status?\n", nil, []string{"help", "stauts"}},
		{"there is no command \"stauts\": did you mean status?\n", nil, []string{"stauts", "-h"}},
		{"there is no command \"stauts\": did you mean status?\n", nil, []string{"stauts", "--frobnicate", "n"}},
		{"there is no command \"frobnicate\"\n", nil, []string{"frobnicate"}},
		{"a command is needed\n", nil, []string{"--frobnicate"}},
		{"a command is needed\n", nil, []string{"--nodes", "redis://127.0.0.1:1"}},
		{"there is no command \"ls\": did you mean list?\n", nil, []string{"ls"}},
		{`for "-w, --wait" flag: a duration needs a unit`, nodes, []string{"run", "-w", "30", "n", "--", "true"}},
		{"unknown shorthand flag: 'x' in -x\n", nodes, []string{"status", "-x", "n"}},
		{"no nodes given", nil, []string{"status", "n"}},
		{"would protect nothing", []string{"REDLOCK_NODES= "}, []string{"run", "n", "--", "true"}},
		{"an empty URL", nil, []string{"status", "--nodes", "redis://a,,redis://b", "n"}},
		{"status: REDLOCK_NODES: node 1 is in quotes: remove them\n", []string{`REDLOCK_NODES="redis://:pw@a"`}, []string{"status", "n"}},
		{"run: REDLOCK_NODES: the list of nodes is in quotes: remove them\n", []string{`REDLOCK_NODES='redis://:pw@a,redis://b'`}, []string{"run", "n", "--", "true"}},
		{"list: REDLOCK_NODES: node 2 is followed by a comment (#): remove it\n", []string{"REDLOCK_NODES=redis://a,redis://:pw@b # B"}, []string{"list"}},
		{"doctor: REDLOCK_NODES: node 1 begins with a byte order mark: save the file without it\n", []string{"REDLOCK_NODES=\ufeffredis://:pw@a"}, []string{"doctor"}},
		{"the scheme must be", nil, []string{"status", "--nodes", "http://a", "n"}},
		{"listed twice", nil, []string{"status", "--nodes", "redis://a,redis://a", "n"}},
		{"one NAME is needed, 0 given", nodes, []string{"status"}},
		{"one NAME is needed, 2 given", nodes, []string{"status", "n", "m"}},
		{"status: invalid argument: the name is empty\nredlock: `redlock status -h` shows", nodes, []string{"status", ""}},
		{"that is a URL and not a NAME", nodes, []string{"status", "redis://:pw@a"}},
		{"that is a URL and not a NAME", nodes, []string{"acquire", "redis://:pw@a"}},
		{"that is a URL and not a NAME", nodes, []string{"run", "redis://:pw@a", "--", "true"}},
		{"no scheme: it begins with redis://", nil, []string{"status", "--nodes", "127.0.0.1:1", "n"}},
		{"--nodes is given and empty", nodes, []string{"status", "--nodes=", "n"}},
		{"--cacert is given and empty", nodes, []string{"status", "n", "--cacert="}},
		{"it has more than 1048576 bytes", nil, []string{"status", "--nodes-file", "/dev/zero", "n"}},
		{"--nodes-file: the file can't be read", nil, []string{"status", "--nodes-file", "u:hunter2@h:1", "n"}},
		{"unknown flag: --jsno: did you mean --json?\n", nodes, []string{"status", "n", "--jsno"}},
		{"in -json: did you mean --json?\n", nodes, []string{"status", "n", "-json"}},
		{"in -nodes: did you mean --nodes or --nodes-file?\n", nil, []string{"status", "-nodes", "redis://a", "n"}},
		{"unknown flag: --skip: did you mean --skip-status?\n", nodes, []string{"run", "--skip=0", "n", "--", "true"}},
		{"unknown flag: --frobnicate\n", nodes, []string{"status", "n", "--frobnicate"}},
		{`for "--ttl" flag: a duration needs a unit: 30ms, 30s, 30m or 30h`, nodes, []string{"run", "--ttl", "30", "n", "--", "true"}},
		{`for "--interval" flag: a duration needs a unit: 0.5ms`, nodes, []string{"status", "--interval", "0.5", "n"}},
		{`for "--guard" flag: a duration is needed, with the units ms, s, m and h`, nodes, []string{"acquire", "--guard", "5d", "n"}},
		{"REDLOCK_GUARD: a duration needs a unit: 60ms, 60s", append(nodes, "REDLOCK_GUARD=60"), []string{"acquire", "n"}},
		{"--min-hold can't be negative", nodes, []string{"run", "--min-hold", "-1s", "n", "--", "true"}},
		{"--min-hold of 25h0m0s: must be from 10ms", nodes, []string{"run", "--min-hold", "25h", "n", "--", "true"}},
		{"--skip-status must be from 0 to 255", nodes, []string{"run", "--skip-status", "256", "n", "--", "true"}},
		{"--skip-status must be from 0 to 255", nodes, []string{"run", "--skip-status", "-1", "n", "--", "true"}},
		{"a NAME is needed", nodes, []string{"run"}},
		{"a NAME is needed", nodes, []string{"run", "--", "true"}},
		{"one NAME, then --", nodes, []string{"run", "n", "true"}},
		{"one NAME, then --", nodes, []string{"run", "n", "m", "--", "true"}},
		{"no COMMAND after the --", nodes, []string{"run", "n", "--"}},
		{`for "--ttl" flag`, nodes, []string{"run", "--ttl", "soon", "n", "--", "true"}},
		{"needs an argument: --ttl", nodes, []string{"run", "n", "--ttl"}},
		{`invalid argument "--" for "--ttl" flag`, nodes, []string{"run", "n", "--ttl", "--", "true"}},
		{"needs an argument: --prefix", nodes, []string{"status", "--prefix", "--", "n"}},
		{"needs an argument: --owner", nodes, []string{"run", "n", "--owner", "--", "true"}},
		{"TTL of 1ms: must be from 10ms", nodes, []string{"run", "--ttl", "1ms", "n", "--", "true"}},
		{"run: invalid argument: TTL of 25h0m0s: must be from 10ms", nodes, []string{"run", "--ttl", "25h", "n", "--", "true"}},
		{"--wait can't be negative", nodes, []string{"run", "--wait", "-1s", "n", "--", "true"}},
		{"half of --ttl: 5s", nodes, []string{"run", "--ttl", "10s", "--grace", "6s", "n", "--", "true"}},
		{"--grace must be from 0", nodes, []string{"run", "--grace", "-2s", "n", "--", "true"}},
		{`--owner "a:b": at most 64 printable bytes`, nodes, []string{"run", "--owner", "a:b", "n", "--", "true"}},
		{"takes no NAME", nil, []string{"demo", "n"}},
		{"takes no NAME", nodes, []string{"doctor", "n"}},
		{"no nodes given", nil, []string{"doctor"}},
		{"excludes --nodes", nil, []string{"doctor", "--embedded", "--nodes", "redis://a"}},
		{"the scheme must be", nil, []string{"doctor", "--nodes", "http://a"}},
		{"--admit needs --guard", nodes, []string{"doctor", "--admit"}},
		{"whole milliseconds", nodes, []string{"doctor", "--guard", "1ms"}},
		{"TTL of 20s: must be from 10ms to 10s (--guard)", nodes, []string{"run", "--guard", "10s", "--ttl", "20s", "n", "--", "true"}},
		{"the scheme must be", nil, []string{"demo", "--nodes", "http://a"}},
		{"REDLOCK_GUARD: a duration is needed", append(nodes, "REDLOCK_GUARD=soon"), []string{"run", "n", "--", "true"}},
		{"reserved namespace", nodes, []string{"acquire", "--prefix", "red", "lock:n"}},
		{`for "--guard" flag`, nodes, []string{"acquire", "--guard", "soon", "n"}},
		{"TTL of 20s: must be from 10ms", append(nodes, "REDLOCK_GUARD=10s"), []string{"acquire", "--ttl", "20s", "n"}},
		{"one NAME is needed, 0 given", nodes, []string{"acquire"}},
		{"one NAME is needed, 2 given", nodes, []string{"acquire", "n", "m"}},
		{"the name is empty", nodes, []string{"acquire", ""}},
		{"--wait can't be negative", nodes, []string{"acquire", "--wait", "-1s", "n"}},
		{"acquire: invalid argument: TTL of 1ms: must be from 10ms", nodes, []string{"acquire", "--ttl", "1ms", "n"}},
		{`--owner "a b": at most`, nodes, []string{"acquire", "--owner", "a b", "n"}},
		{"no nodes given", nil, []string{"acquire", "n"}},
		{"no nodes given", nil, []string{"extend", someClaim}},
		{"no nodes given", nil, []string{"release", someClaim}},
		{"one CLAIM is needed, or - to read it, 0 given", nodes, []string{"extend"}},
		{"one CLAIM is needed, or - to read it, 2 given", nodes, []string{"release", "-", "-"}},
		{"the CLAIM is empty: did redlock acquire fail?", nodes, []string{"release", ""}},
		{"the CLAIM is empty: did redlock acquire fail?", nodes, []string{"extend", "-"}},
		{"a claim begins with", nodes, []string{"release", "job"}},
		{"damaged claim", nodes, []string{"release", "redlock1.e30x"}},
		{"claim without a token", nodes, []string{"release", "redlock1.e30"}},
		{"--ttl must be at least 10ms", nodes, []string{"extend", "--ttl", "1ms", someClaim}},
		{"--ttl must be at least 10ms", nodes, []string{"extend", "--ttl", "0", someClaim}},
		{"that is a claim and not a NAME", nodes, []string{"status", someClaim}},
		{"that is a claim and not a NAME", nodes, []string{"acquire", someClaim}},
		{"that is a claim and not a NAME", nodes, []string{"run", someClaim, "--", "true"}},
		{"--interval must be from 100ms to 1h", nodes, []string{"status", "--watch", "--interval", "99ms", "n"}},
		{"--interval must be from 100ms to 1h", nodes, []string{"status", "--watch", "--interval", "61m", "n"}},
		{"--interval must be from 100ms to 1h", nodes, []string{"list", "--watch", "--interval", "99ms"}},
		{"one PREFIX is enough, 2 given", nodes, []string{"list", "n", "m"}},
		{"that is a claim and not a NAME", nodes, []string{"list", someClaim}},
		{"reserved namespace", nodes, []string{"list", "redlock:guard"}},
		{`--prefix "redlock:": `, nodes, []string{"list", "--prefix", "redlock:"}},
		{"--limit must be from 1 to 100000", nodes, []string{"list", "--limit", "0"}},
		{"--timeout must be more than 0, and at most 10m", nodes, []string{"list", "--timeout", "11m"}},
		{"no nodes given", nil, []string{"list"}},
		{"the scheme must be", nil, []string{"list", "--nodes", "http://a"}},
		{"listed twice", nil, []string{"list", "--nodes", "redis://a,redis://a?name=b"}},
		{"listed twice", nil, []string{"list", "--nodes", "redis://a?name=b,redis://c?name=b"}},
		{"one NAME is needed, 0 given", nodes, []string{"break", "--yes"}},
		{"that is a claim and not a NAME", nodes, []string{"break", someClaim}},
		{"the name is empty", nodes, []string{"break", ""}},
		{"reserved namespace", nodes, []string{"break", "redlock:guard"}},
		{"no nodes given", nil, []string{"break", "n"}},
		{"the scheme must be", nil, []string{"break", "--nodes", "http://a", "n"}},
		{"takes no NAME", nodes, []string{"bench", "n"}},
		{"--embedded measures nodes", nil, []string{"bench"}},
		{"excludes --nodes", nil, []string{"bench", "--embedded", "--nodes", "redis://a"}},
		{"--clients must be from 1 to 256", nodes, []string{"bench", "--clients", "0"}},
		{"--clients must be from 1 to 256", nodes, []string{"bench", "--clients", "257"}},
		{"--for must be more than 0, and at most 10m", nodes, []string{"bench", "--for", "11m"}},
		{"--for must be more than 0, and at most 10m", nodes, []string{"bench", "--for", "0s"}},
		{"--count must be from 0 to 10000000", nodes, []string{"bench", "--count", "-1"}},
		{"one shell is needed, 0 given: bash, zsh, fish, powershell", nil, []string{"completion"}},
		{"no completion for \"csh\": the shells are bash, zsh, fish, powershell", nil, []string{"completion", "csh"}},
		{"there is no --json: what it prints is a script", nil, []string{"completion", "--json"}},
		{"takes no arguments", nil, []string{"version", "now"}},
	} {
		got := invoke(t, c.env, c.args...)
		require.Equal(t, cli.ExitUsage, got.status, c.args)
		require.Contains(t, got.err, c.says, c.args)
		require.Empty(t, got.out, c.args)
		require.NotContains(t, got.err, someClaim[len("redlock1."):], "who has the claim can release the lock")
	}
}

func TestACommandThatAWrongWordResemblesIsNamed(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"stauts": "status", "acquirre": "acquire", "stat": "status", "lsit": "list", "relase": "release", "rnu": "run",
		"ls": "list", "lock": "acquire", "unlock": "release", "": "", "x": "", "zzz": "", "\xff\xfe": "",
	} {
		got := invoke(t, nil, word)
		require.Equal(t, cli.ExitUsage, got.status, word)
		require.Equal(t, want != "", strings.Contains(got.err, "did you mean "+want+"?\n"), got.err)
		require.Equal(t, want != "", strings.Contains(got.err, "did you mean"), got.err)
	}
}

func TestAllSubcommandsSayAtOneMouthHowTheyEnd(t *testing.T) {
	t.Parallel()
	for _, cmd := range commands() {
		require.NotEmpty(t, cmd.Short, cmd.Name())
		require.NotEmpty(t, cmd.Example, cmd.Name())
		require.True(t, strings.HasSuffix(cmd.Long, ".\n") || strings.HasPrefix(lastLine(cmd.Long), " "), cmd.Name())
		statuses := map[int]bool{}
		for _, e := range cmd.ExitStatuses {
			require.False(t, statuses[e.Status], "%s has %d twice", cmd.Name(), e.Status)
			statuses[e.Status] = true
		}
		require.True(t, statuses[cli.ExitUsage], cmd.Name())
		flags := cmd.Flags()
		cmd.Define(flags)
		hasJSON := flags.Lookup("json") != nil
		require.NotEqual(t, hasJSON, cmd.NoJSON != "", "%s has --json, or says why not", cmd.Name())
		require.Equal(t, hasJSON, strings.Contains(cmd.Long, "\nWith --json it prints one object"), cmd.Name())
		flags.VisitAll(func(def *pflag.Flag) { require.NotContains(t, def.Usage, "\n", def.Name) })
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestFlagsMayStandBeforeAndAfterTheName(t *testing.T) {
	t.Parallel()
	all := []string{"REDLOCK_NODES=redis://127.0.0.1:1"}
	for _, args := range [][]string{
		{"status", "--json", "n"},
		{"status", "n", "--json"},
		{"status", "--json", "--", "n"},
		{"status", "--nodes", "redis://127.0.0.1:1", "n", "--json"},
		{"--json", "status", "n"},
		{"--nodes", "redis://127.0.0.1:1", "--json", "status", "n"},
	} {
		got := invoke(t, all, args...)
		require.Equal(t, cli.ExitUnavailable, got.status, args)
		require.Contains(t, got.out, `"name": "n"`, args)
	}
}

func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"status", "--nodes", "redis://u:sesame@127.0.0.1:1", "n"},
		{"status", "--nodes", "redis://u:sesame@127.0.0.1:x", "n"},
		{"demo", "--nodes", "redis://u:sesame@127.0.0.1:1?db=x"},
		{"run", "--wait", "0", "--nodes", "redis://u:sesame@127.0.0.1:1", "n", "--", "true"},
	} {
		got := invoke(t, nil, args...)
		require.NotEqual(t, cli.ExitOK, got.status)
		require.NotContains(t, got.out+got.err, "sesame", args)
	}
}
