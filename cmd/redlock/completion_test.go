package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script is the completion for a shell.
func script(t *testing.T, shell string) string {
	t.Helper()
	got := invoke(t, nil, "completion", shell)
	require.Equal(t, outcome{status: exitOK, out: got.out}, got)
	return got.out
}

// completed is what bash offers when Tab is pressed behind these words.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	return completedLine(t, "redlock "+strings.Join(words, " "), words...)
}

// completedLine is completed with the line as it was typed: bash splits it into words at : and = too.
func completedLine(t *testing.T, line string, words ...string) []string {
	t.Helper()
	bash := installed(t, "bash")
	const ask = "\nCOMP_LINE=$1 COMP_POINT=${#1}; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(( $# - 1 )); _redlock; printf '%s\\n' \"${COMPREPLY[@]}\""
	cmd := exec.Command(bash, append([]string{"-c", script(t, "bash") + ask, "bash", line, "redlock"}, words...)...)
	cmd.Env = append(os.Environ(), withHeldNames(t))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.Fields(string(out))
}

// withHeldNames returns the variable PATH with a redlock that finds these names. It fails if it is asked for
// another subcommand than status or break.
func withHeldNames(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	const program = `#!/bin/sh
[ "$1" = __names ] || exit 1
case $2 in status|break) ;; *) echo wrong; exit 1 ;; esac
for typed; do :; done
for name in invoice:42 job "it's"; do
    case $name in "$typed"*) echo "$name" ;; esac
done
echo trouble >&2
`
	require.NoError(t, os.WriteFile(filepath.Join(folder, "redlock"), []byte(program), 0o700))
	return "PATH=" + folder + string(os.PathListSeparator) + os.Getenv("PATH")
}

func TestBashCompletesWhatTheTableSays(t *testing.T) {
	t.Parallel()
	all := completed(t, "")
	for _, cmd := range commands() {
		require.Contains(t, all, cmd.name)
		flags := completed(t, cmd.name, "--")
		require.Contains(t, flags, "--help")
		for _, o := range newFlagSet(cmd).all() {
			require.Contains(t, flags, "--"+o.name, cmd.name)
		}
	}
	require.Equal(t, []string{"status"}, completed(t, "stat"))
	require.Equal(t, []string{"release"}, completed(t, "help", "rel"))
	require.Equal(t, []string{"--wait"}, completed(t, "acquire", "job", "--w"))
	require.Equal(t, []string{"bash"}, completed(t, "completion", "b"))
	require.Empty(t, completed(t, "acquire", "--ttl", ""), "what a flag is given is not known")
	require.Empty(t, completed(t, "acquire", ""), "nor is a NAME that is not held yet")
	require.Equal(t, []string{"invoice:42", "job", `it\'s`}, completed(t, "status", ""))
	require.Equal(t, []string{"job"}, completed(t, "break", "--yes", "jo"))
	require.Equal(t, []string{"42"}, completedLine(t, "redlock status invoice:4", "status", "invoice", ":", "4"))
	require.Equal(t, []string{"42"}, completedLine(t, "redlock status invoice:", "status", "invoice", ":"))
	require.Equal(t, []string{"-"}, completed(t, "release", ""), "a claim cannot be found")
	require.Equal(t, []string{"job"}, completed(t, "run", "a", "--", "redlock", "status", "j"))
	require.Contains(t, completed(t, "run", "job", "--", "ech"), "echo")
	require.Empty(t, completed(t, "status", "--", "ech"))
	require.Equal(t, []string{"status"}, completed(t, "run", "job", "--", "redlock", "stat"))
	require.Equal(t, []string{"--wait"}, completed(t, "run", "a", "--", "redlock", "run", "--w"))
	require.Contains(t, completed(t, "run", "a", "--", "redlock", "run", "b", "--", "ech"), "echo")
}

func TestCompletionScriptsCanBeRead(t *testing.T) {
	t.Parallel()
	for _, shell := range shells {
		text := script(t, shell)
		for _, cmd := range commands() {
			require.Contains(t, text, cmd.name)
			for _, o := range newFlagSet(cmd).all() {
				require.Contains(t, text, o.name, shell)
			}
		}
		t.Run(shell, func(t *testing.T) {
			cmd := exec.Command(installed(t, shell), "-n")
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

func TestWordsInAScriptAreQuoted(t *testing.T) {
	t.Parallel()
	require.Equal(t, `'it'\''s'`, quoted("it's"))
	require.Equal(t, `'it\'s \\'`, fishQuoted(`it's \`))
	require.Equal(t, `a\: \[b\]`, zshPlain("a: [b]"))
	require.Equal(t, "how long to wait for it", firstLine("how long to wait for it; 0 is one attempt (default: 1m)"))
}
