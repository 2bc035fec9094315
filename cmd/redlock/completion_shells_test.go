package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// offered are lines that are typed, and what zsh and fish offer behind each when Tab is pressed. Of what begins with a - or
// belongs to a command behind --, which depends on the machine, only this much is asked for.
var offered = map[string]struct {
	words []string
	some  bool // there may be others
}{
	"redlock stat":            {words: []string{"status"}},
	"redlock hel":             {words: []string{"help"}},
	"redlock help rel":        {words: []string{"release"}},
	"redlock completion b":    {words: []string{"bash"}},
	"redlock acquire job --w": {words: []string{"--wait"}},
	"redlock run status --w":  {words: []string{"--wait"}}, // the name of a lock, here
	"redlock status --": {words: []string{
		"--watch", "--interval", "--json", "--nodes", "--nodes-file", "--cacert", "--cert", "--key", "--prefix", "--help",
	}},
	"redlock acquire --ttl ":                 {},
	"redlock acquire ":                       {},
	"redlock status ":                        {words: []string{"invoice:42", "job"}, some: true}, // shells quote the third one in their own ways
	"redlock break --yes invoice:4":          {words: []string{"invoice:42"}},
	"redlock status --interval 2s j":         {words: []string{"job"}},
	"redlock release ":                       {words: []string{"-"}},
	"redlock run job -- redlock status j":    {words: []string{"job"}},
	"redlock status -- ech":                  {},
	"redlock run job -- ech":                 {words: []string{"echo"}, some: true},
	"redlock run --ttl=3s job -- ech":        {words: []string{"echo"}, some: true},
	"redlock run job -- redlock stat":        {words: []string{"status"}},
	"redlock run a -- redlock run b -- ech":  {words: []string{"echo"}, some: true},
	"redlock run job -- redlock acquire --w": {words: []string{"--wait"}},
}

// requireOffered compares what a shell offers behind every line with the table.
func requireOffered(t *testing.T, got map[string][]string) {
	t.Helper()
	for line, want := range offered {
		if want.some {
			require.Subset(t, got[line], want.words, line)
		} else {
			require.ElementsMatch(t, want.words, got[line], line)
		}
	}
}

// installed finds a shell, or skips the test; CI has to have it.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("there is no %s here, and CI=true forbids to skip its test", name)
	}
	if err != nil {
		t.Skipf("there is no %s here", name)
	}
	return path
}

// typed runs a program that plays a shell's user, in an empty folder: files would be offered, too.
func typed(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.TempDir(), append(append(os.Environ(), "TERM=dumb", "HOME="+t.TempDir()), env...), &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, &errs)
	return string(out)
}

func TestFishCompletesWhatTheTableSays(t *testing.T) {
	t.Parallel()
	fish := installed(t, "fish")
	file := filepath.Join(t.TempDir(), "redlock.fish")
	require.NoError(t, os.WriteFile(file, []byte(script(t, "fish")), 0o600))
	got := make(map[string][]string)
	for line := range offered {
		out := typed(t, []string{withHeldNames(t)}, fish, "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", file, line)
		for found := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(found), "\t")
			got[line] = append(got[line], word)
		}
	}
	requireOffered(t, got)
}

// zshUser is the .zshrc of a zsh that types every line of the file lines as soon as it would read one, and writes what is offered to
// the file offers, the line before it. What is offered is what the completion gives to compadd and begins with what is typed.
const zshUser = `autoload -U compinit; compinit -u -D
source $ZDOTDIR/redlock.zsh
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return
    fi
    local -a hits
    builtin compadd -A hits "$@"
    local hit
    for hit in $hits; do print -r -- "$typed	$hit" >>$ZDOTDIR/offers; done
    (( $#hits ))
}
zle-line-init() {
    local typed
    for typed in ${(f)"$(<$ZDOTDIR/lines)"}; do
        BUFFER=$typed CURSOR=$#typed
        zle complete-word
    done
    BUFFER=exit
    zle accept-line
}
zle -N zle-line-init
`

func TestZshCompletesWhatTheTableSays(t *testing.T) {
	t.Parallel()
	zsh := installed(t, "zsh")
	folder := t.TempDir()
	lines := new(strings.Builder)
	for line := range offered {
		lines.WriteString(line + "\n")
	}
	for name, text := range map[string]string{".zshrc": zshUser, "redlock.zsh": script(t, "zsh"), "lines": lines.String(), "offers": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	// It completes on a terminal only.
	const terminal = `zmodload zsh/zpty && zpty user "$ZSH -d -i" && while zpty -r user; do :; done`
	typed(t, []string{"ZDOTDIR=" + folder, "ZSH=" + zsh, withHeldNames(t)}, zsh, "-f", "-c", terminal)
	offers, err := os.ReadFile(filepath.Join(folder, "offers"))
	require.NoError(t, err)
	got := make(map[string][]string)
	for found := range strings.Lines(string(offers)) {
		line, word, _ := strings.Cut(strings.TrimSuffix(found, "\n"), "\t")
		got[line] = append(got[line], word)
	}
	requireOffered(t, got)
}
