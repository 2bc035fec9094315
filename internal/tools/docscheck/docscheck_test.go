package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inFolder runs the test in a folder with these files.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o666))
	}
}

func words(found []finding) []string {
	var all []string
	for _, f := range found {
		all = append(all, f.String())
	}
	return all
}

func TestFiguresOfAnOlderStateOfTheCodeAreWarnedOf(t *testing.T) {
	inFolder(t, map[string]string{"redlock/a.go": "package redlock\n"})
	git := func(words ...string) string {
		c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, words...)...)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	commit := func() string {
		git("add", "-A")
		git("commit", "-q", "--allow-empty", "-m", "x")
		return git("rev-parse", "--short", "HEAD")
	}
	git("init", "-q")
	first := commit()
	require.NoError(t, os.WriteFile("redlock/a.go", []byte("package redlock // changed\n"), 0o666))
	second := commit()
	pages := []*page{read("a.md", "Measured at commit "+first+".\n\nMeasured at commit "+second+", and at commit 0000000, not `commit abcdef0`.\n")}
	old := words(checkAge(pages))
	require.Len(t, old, 2)
	assert.Equal(t, "a.md:1: measured at commit "+first+": redlock, pool or internal/server has changed since", old[0])
	assert.Contains(t, old[1], "a.md:3: measured at commit 0000000: it can't be compared")
}

func TestLinksThatLeadNowhereAreFound(t *testing.T) {
	source := strings.Join([]string{
		"# The top, `of it`", "## Twice", "## Twice",
		"[a](other.md) [b](other.md#a-heading) [c](#twice-1) [d](#the-top-of-it) [e](https://example.com/x)",
		"[gone](gone.md)",
		"[no heading](other.md#gone)",
		"[out](../../x.md)",
		"`[no](link.md)`",
		"```", "[no](link.md)", "# No heading", "```",
		"[third](#no-heading)",
		`<img src="gone.svg">`,
		"[half](https:///x)",
	}, "\n")
	inFolder(t, map[string]string{"docs/page.md": source, "docs/other.md": "# A heading\n"})
	pages := []*page{read("docs/page.md", source), read("docs/other.md", "# A heading\n")}

	count, found := checkLinks(pages)

	assert.Equal(t, 11, count)
	assert.Equal(t, []string{
		"docs/page.md:5: there is no docs/gone.md",
		"docs/page.md:6: there is no heading #gone in docs/other.md",
		"docs/page.md:7: ../../x.md leads out of the repository",
		"docs/page.md:13: there is no heading #no-heading in docs/page.md",
		"docs/page.md:14: there is no docs/gone.svg",
		"docs/page.md:15: no host in https:///x",
	}, words(found))
}

func TestCodeThatDoesNotCompileIsFoundAtItsLine(t *testing.T) {
	p := read("page.md", strings.Join([]string{
		"```go", "package main", "", "func main() { undefined() }", "```", // 4
		"", "```go", "n, later := 1, 2", "fmt.Println(n)", "return errors.New(\"x\")", "```", // well: statements
		"", "```go", "func f() time.Duration { return 1 }", "```", // well: declarations
		"", "<!-- with: func work(ctx context.Context) error -->", "```go", "err := work(context.TODO())", "_ = err", "```", // well
		"", "```go", "if unused := 1; true {}", "```", // 24
		"", "```go", "_ = strings.Gone", "```", // 28
		"", "```go", "this is no Go", "```", // 32
		"", "<!-- not compiled: another library's -->", "```go", "nor is this", "```",
		"", "```text", "or this", "```",
	}, "\n"))

	count, found, err := checkGo([]*page{p})

	require.NoError(t, err)
	assert.Equal(t, 8, count)
	var lines []int
	for _, f := range found {
		lines = append(lines, f.line)
	}
	assert.ElementsMatch(t, []int{4, 24, 28, 32}, lines, words(found))
}

func TestCodeThatUsesATokenIsFound(t *testing.T) {
	p := read("page.md", strings.Join([]string{
		"```go", "slog.Info(\"held\", \"lock\", lock.Token())", "```",
		"", "```go", "slog.Info(\"held\", \"lock\", lock.ID())", "```",
		"", "<!-- not compiled: another library's -->", "```go", "lock.Token()", "```",
	}, "\n"))

	_, found, err := checkGo([]*page{p})

	require.NoError(t, err)
	assert.Equal(t, []string{"page.md:2: the block uses a token, which can release the lock: use Lock.ID"}, words(found))
}

func TestCommandsThatDoNotExistAreFound(t *testing.T) {
	inFolder(t, map[string]string{"scripts/there": "", "redlock/x.go": ""})
	c := commands{
		targets: targetsOf("test: ## all\n\tgo test\nbin/x:\n"),
		help: func(s string) (string, bool) {
			return "--ttl duration\n--wait-long duration", s == "run"
		},
	}
	for _, row := range [][2]string{
		{"make test TESTFLAGS=-v", ""},
		{"make gone", "make has no target gone"},
		{"cd x && make gone", "make has no target gone"},
		{"X=1 redlock run --ttl 3s n -- ./x --gone", ""},
		{"redlock run --ttl=3s n", ""},
		{"redlock run --wait 3s n", "redlock run has no flag --wait"},
		{"go run ./cmd/redlock gone", "redlock has no subcommand gone"},
		{"redlock COMMAND -h", ""},
		{"scripts/there -v", ""},
		{"scripts/gone -v", "there is no scripts/gone"},
		{"go test ./redlock/... -run X", ""},
		{"go test ./gone -run X", "there is no ./gone"},
		{"redlock run --ttl 3s x && redlock run --gone x", "redlock run has no flag --gone"},
	} {
		assert.Equal(t, row[1], c.check(row[0]), row[0])
	}
}

func TestCommandsAreTakenFromShellsPromptsAndSpans(t *testing.T) {
	p := read("page.md", strings.Join([]string{
		"Say `make a`.", "", "```sh", "make b \\", "  X=1", "make c", "```", "",
		"```console", "$ make d", "make what is printed", "```", "", "    make e", "", "```go", "make f", "```",
		"- an item", "", "    make no block", "",
	}, "\n"))
	var lines []string
	for _, l := range commandsOf(p) {
		if strings.HasPrefix(l.text, "make") {
			lines = append(lines, l.text)
		}
	}
	assert.Equal(t, []string{"make a", "make b     X=1", "make c", "make d", "make e"}, lines)
}

func TestNamesThatTheAPIDoesNotHaveAreFound(t *testing.T) {
	t.Chdir("../../..")
	a, err := loadAPI()
	require.NoError(t, err)
	for span, wrong := range map[string]string{
		"redlock.Open":                 "",
		"redlock.WithKeyPrefix(\"x\")": "",
		"Locker.Acquire":               "",
		"pool.Config.Proxied":          "",
		"Config.Gone":                  "the API has no Config.Gone",
		"redlock.Gone":                 "the API has no redlock.Gone",
		"WithGone(3)":                  "the API has no WithGone",
		"ErrHeld":                      "",
		"ErrGone":                      "the API has no ErrGone",
		"redsync.WithGone":             "",
		"redlock.TestSomething":        "",
		"context.Gone":                 "",
		"redlock run":                  "",
	} {
		_, got := a.check(span)
		assert.Equal(t, wrong, got, span)
	}
}

func TestThePageOfErrorsIsComparedWithTheSources(t *testing.T) {
	const library = `package redlock

const remedy = "start it"

var ErrLost = errors.New("redlock: lock " + "lost")

var errOwn = errors.New("is not exported")

func f() {
	d.Warn("a node does not vote", "node", n)
	return fmt.Errorf("%w: for %d%% of %v: "+remedy+other(), ErrLost, 1, 2)
}
`
	const program = `package main

func g() {
	c.misused("--%s is given and empty", x)
	c.fail(err, "%s: %v", a, b)
	c.fail(err, "%s was lost before the command began", a)
	return errors.New("the lock " + name + " is gone")
}
`
	for listed, want := range map[string][]string{
		"| `redlock: lock lost`, `redlock: a node does not vote` | x |\n| `--… is given and empty`, `was lost before the command` | `y` |\n" +
			"| `the lock … is gone` |\n| `…: for …% of …: start it…` |\n": nil,
		"| `redlock: lock lost`, `redlock: a node does not vote` | x |\n| `--… is given and empty`, `nonsense` |\n| `was lost before` |\n": {
			"docs/errors.md:2: the sources have no text \"nonsense\"",
			"docs/errors.md:1: \"the lock … is gone\" is missing: cmd/redlock/g.go:7:20",
		},
	} {
		inFolder(t, map[string]string{"docs/errors.md": listed, "redlock/f.go": library, "cmd/redlock/g.go": program, "cmd/redlock/g_test.go": "{"})
		count, found, err := checkErrors([]*page{read("docs/errors.md", listed)})
		require.NoError(t, err)
		require.Positive(t, count)
		assert.Equal(t, want, words(found))
	}
	_, found, err := checkErrors([]*page{read("docs/other.md", "| `nonsense` |\n")})
	require.NoError(t, err)
	require.Empty(t, found)
}
