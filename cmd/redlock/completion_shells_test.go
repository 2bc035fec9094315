//go:build unix && !aix && !solaris

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// offered are lines that are typed, and what a shell offers behind each when Tab is pressed.
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
	"redlock acquire --ttl ":           {},
	"redlock acquire ":                 {},
	"redlock status ":                  {words: []string{"invoice:42", "job"}, some: true}, // shells quote the third one in their own ways
	"redlock break --yes invoice:4":    {words: []string{"invoice:42"}},
	"redlock status --interval 2s j":   {words: []string{"job"}},
	"redlock release ":                 {words: []string{"-"}},
	"redlock status -- ech":            {},
	"redlock run job -- ech":           {words: []string{"echo"}, some: true},
	"redlock run --ttl=3s job -- ech":  {words: []string{"echo"}, some: true},
	"redlock status --nodes-file list": {words: []string{"list.txt"}},
	"redlock run job -- cat list":      {words: []string{"list.txt"}},
	"redlock run job -- cat --no li":   {words: []string{"list.txt"}},
	"redlock run job -- cat --w":       {}, // a flag of redlock, and names of locks, mean nothing to another program
	"redlock run job -- --w":           {},
	"redlock run job -- cat jo":        {},
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

// typed runs a program that plays a shell's user, in a folder with one file. The shell finds redlock, and redlock finds nodes that hold
// three names.
func typed(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	all := listing(t)
	for _, name := range []string{"invoice:42", "job", "it's"} {
		holdAll(all, name, token, time.Hour)
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "list.txt"), nil, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stderr = folder, &errs
	cmd.Env = append(os.Environ(), append(env, "TERM=dumb", "HOME="+t.TempDir(), "REDLOCK_NODES="+nodesOf(all),
		"PATH="+filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))...)
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, &errs)
	return string(out)
}

func TestAShellDoesNotWaitForFrozenNodes(t *testing.T) {
	t.Parallel()
	_, err := userBinary()
	require.NoError(t, err, "it takes long to build")
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	attempts(t, func() (wrong string) {
		for _, m := range all {
			m.Freeze()
			defer m.Unfreeze()
		}
		began := time.Now()
		p := startAsUser(t, all, cobra.ShellCompRequestCmd, "status", "")
		out := p.gone()
		took := time.Since(began)
		require.Equal(t, 0, p.status())
		require.NotContains(t, out, "job")
		if took > 1500*time.Millisecond { // cli.NamesTimeout is 500 ms
			wrong = "it took " + took.String()
		}
		return wrong
	})
}

// script writes the completion for a shell into a file.
func script(t *testing.T, shell string) (path string) {
	t.Helper()
	got := invoke(t, nil, "completion", shell)
	require.Equal(t, outcome{status: cli.ExitOK, out: got.out}, got)
	path = filepath.Join(t.TempDir(), "redlock."+shell)
	require.NoError(t, os.WriteFile(path, []byte(got.out), 0o600))
	return path
}

// bashCompletion is the package that the script for bash needs.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// bashUser types each line of a file, and prints what is offered: the line, a tab, and a word. Bash breaks a line into words at : and =,
// too, so these come apart.
const bashUser = `source "$1"; source "$2"
while IFS= read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=42 COMPREPLY=()
    IFS= read -r words
    eval "COMP_WORDS=( $words )"
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    __start_redlock
    for word in "${COMPREPLY[@]}"; do printf '%s\t%s\n' "$COMP_LINE" "$word"; done
done <"$3"
`

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	bash := installed(t, "bash")
	if _, err := os.Stat(bashCompletion); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("there is no %s here, and CI=true forbids to skip its test", bashCompletion)
		}
		t.Skipf("there is no %s here", bashCompletion)
	}
	var lines strings.Builder
	for line := range offered {
		lines.WriteString(line + "\n")
		for _, word := range regexp.MustCompile(`[:=]|[^:=\s]+`).FindAllString(line, -1) {
			lines.WriteString("'" + word + "' ")
		}
		if strings.HasSuffix(line, " ") {
			lines.WriteString("''")
		}
		lines.WriteString("\n")
	}
	input := filepath.Join(t.TempDir(), "lines")
	require.NoError(t, os.WriteFile(input, []byte(lines.String()), 0o600))
	out := typed(t, nil, bash, "--norc", "-c", bashUser, "bash", bashCompletion, script(t, "bash"), input)
	got := offers(out)
	got["redlock break --yes invoice:4"] = []string{"invoice:" + strings.Join(got["redlock break --yes invoice:4"], " ")} // bash replaces what is behind :
	for line, want := range offered {
		if slices.Equal(want.words, []string{"list.txt"}) {
			require.Empty(t, got[line], "bash itself offers files then")
			got[line] = want.words
		}
	}
	requireOffered(t, got)
}

// offers reads lines of what was typed, a tab, and a word that is offered.
func offers(text string) map[string][]string {
	got := make(map[string][]string)
	for found := range strings.Lines(text) {
		line, word, _ := strings.Cut(strings.TrimSuffix(found, "\n"), "\t")
		word, _, _ = strings.Cut(word, "\t")
		got[line] = append(got[line], word)
	}
	return got
}

func TestFishCompletes(t *testing.T) {
	t.Parallel()
	fish := installed(t, "fish")
	const user = `source $argv[1]; for line in $argv[2..]; for word in (complete -C $line); printf '%s\t%s\n' $line $word; end; end`
	args := []string{"--no-config", "-c", user, script(t, "fish")}
	for line := range offered {
		args = append(args, line)
	}
	requireOffered(t, offers(typed(t, nil, fish, args...)))
}

// zshUser is the .zshrc of a zsh that types every line of the file lines as soon as it would read one, and writes what is offered to
// the file offers, the line before it. What is offered is what the completion gives to compadd and begins with what is typed.
const zshUser = `autoload -U compinit; compinit -u -D
source $SCRIPT
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

func TestZshCompletes(t *testing.T) {
	t.Parallel()
	zsh := installed(t, "zsh")
	folder := t.TempDir()
	lines := new(strings.Builder)
	for line := range offered {
		lines.WriteString(line + "\n")
	}
	for name, text := range map[string]string{".zshrc": zshUser, "lines": lines.String(), "offers": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	// It completes on a terminal only.
	const terminal = `zmodload zsh/zpty && zpty user "$ZSH -d -i" && while zpty -r user; do :; done`
	typed(t, []string{"ZDOTDIR=" + folder, "ZSH=" + zsh, "SCRIPT=" + script(t, "zsh")}, zsh, "-f", "-c", terminal)
	found, err := os.ReadFile(filepath.Join(folder, "offers"))
	require.NoError(t, err)
	requireOffered(t, offers(string(found)))
}
