package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gotest.tools/gotestsum/testjson"

	"github.com/quorumlock/go-redlock/internal/late"
)

// module is the path of the library's module, and the prefix of all others.
const module = "github.com/quorumlock/go-redlock"

// atOnce says how many of the tests on real servers run beside each other.
type atOnce struct {
	lanes    int // processes that share the tests of the folder integration, each with servers of its own
	packages int // of those below it
	tests    int // of one package
}

// howMany says what this machine can run now. Many of these tests wait, for an election or for a TTL. Beside
// busy programs they would take the processors from each other: then nothing is answered in time.
func howMany() atOnce {
	if busy() {
		fmt.Fprintln(os.Stderr, "integration: other programs take the processors: few tests run beside each other, which takes longer")
		return atOnce{lanes: 3, packages: 2, tests: 1}
	}
	return atOnce{lanes: 4, packages: 2, tests: processors()}
}

// command is a program that prints what `go test -json` prints.
type command struct {
	what  string // for a message, if it fails without a failed test
	dir   string
	env   []string
	argv  []string
	flags []string // those of go test that a command that repeats one of its tests needs
}

// unit returns the tests that need no Docker: those of the library, and beside them all others. Each module is
// tested with the dependencies that users get.
func unit(s settings) (stage, error) {
	test := func(what, dir, work string, more, packages []string) command {
		argv := append(append([]string{"go", "test", "-json", "-timeout", "20m"}, more...), s.flags...)
		env := append([]string{"GOWORK=" + work}, lateEnv()...)
		return command{what: what, dir: dir, env: env, argv: append(argv, packages...), flags: s.flags}
	}
	own, err := filepath.Abs("cmd/redlock/own.work")
	if err != nil {
		return nil, err
	}
	program := test("the command", "cmd/redlock", own, nil, []string{"./..."})
	more := []string{"-p", strconv.Itoa(processors())}
	took := tookBefore()
	if late.On() { // the modules in contrib have no test whose nodes can be late
		packages, err := lateable()
		return stage{{test("the library", ".", "off", more, took.longestFirst(packages))}, {program}}, err
	}
	if s.cover != "" {
		more = append(more, "-coverprofile="+s.cover, "-covermode=atomic")
	}
	packages, err := list([]string{"GOWORK=off"}, "./...")
	if err != nil {
		return nil, err
	}
	library, others := test("the library", ".", "off", more, took.longestFirst(packages)), []command{program}
	modules, err := filepath.Glob("contrib/*/go.mod")
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		dir := filepath.Dir(m)
		others = append(others, test(dir, dir, "off", nil, []string{"./..."}))
	}
	if selects(s.flags) {
		return stage{{library}, others}, nil
	}
	without, err := withoutRace(packages, s.flags)
	return stage{{library}, append(others, without...)}, err
}

// simulation is a package of the module of the tests on real servers, and needs none.
const simulation = module + "/integration/sim"

// withoutRace returns what runs without the race detector. The simulation takes ten times as long with it. If the
// detector is on, the commands above leave out the rest of these: the tests in files
// for which it is off, which count allocations or simulate many processes.
func withoutRace(library, flags []string) ([]command, error) {
	off := raceless(flags)
	test := func(what, work string, more ...string) command {
		return command{what: what, dir: ".", env: []string{"GOWORK=" + work}, argv: slices.Concat([]string{"go", "test", "-json"}, off, more), flags: off}
	}
	all := []command{test("the simulation", "", simulation)}
	if raceOff(flags) != "" {
		return all, nil
	}
	names, packages, err := inFilesWithoutRace(library)
	return append(
		all,
		test("allocations and simulations", "off", append([]string{"-run", "^(" + strings.Join(names, "|") + ")$"}, packages...)...),
	), err
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// inFilesWithoutRace returns the tests in such files of the library's packages, and the packages that have some.
func inFilesWithoutRace(library []string) (names, packages []string, err error) {
	for _, p := range library {
		files, err := filepath.Glob(filepath.Join(".", strings.TrimPrefix(p, module), "*_test.go"))
		if err != nil {
			return nil, nil, err
		}
		before := len(names)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, nil, err
			}
			if !bytes.HasPrefix(text, []byte("//go:build !race\n")) {
				continue
			}
			for _, f := range testFunc.FindAllSubmatch(text, -1) {
				names = append(names, string(f[1]))
			}
		}
		if len(names) > before {
			packages = append(packages, p)
		}
	}
	return names, packages, nil
}

// list returns the packages that a pattern names, also those that don't compile.
func list(env []string, pattern string) ([]string, error) {
	cmd := exec.Command("go", "list", "-e", pattern)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pattern, err)
	}
	return strings.Fields(string(out)), nil
}

// lateEnv is the environment of the late mode, or nothing.
func lateEnv() []string {
	if !late.On() {
		return nil
	}
	return []string{late.Variable + "=" + os.Getenv(late.Variable)}
}

// lateable returns the packages of the library's module whose tests can have a late node.
func lateable() ([]string, error) {
	out, err := exec.Command("go", "list", "-test", "-f", "{{.ForTest}} {{.Deps}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		name, deps, _ := strings.Cut(line, " ")
		if name != "" && strings.Contains(deps, module+"/internal/late") && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// servers returns the tests on real servers. The script finds or builds images, and removes what containers a crash has
// left.
func servers(s settings) (command, error) {
	self, err := os.Executable()
	argv := append([]string{"scripts/integration", "--with", self, "-lanes", "--"}, s.flags...)
	return command{what: "the tests on real servers", dir: ".", env: lateEnv(), argv: argv, flags: s.flags}, err
}

// runLanes runs the tests on real servers: those of the folder integration in lanes, and beside them
// the packages below it. If the folder does not compile, it runs the packages below it alone. It prints
// each error as an event.
func runLanes(ctx context.Context, flags []string, out *lines) error {
	below := command{what: "integration", dir: ".", argv: []string{"go", "test", "-json", "-count=1", "-timeout", "20m"}}
	build, test, known := forBinary(flags)
	for _, f := range flags {
		if strings.HasPrefix(f, "-race") { // the programs that tests build are compiled as the tests are: what they import is compiled once
			_ = os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" "+f))
		}
	}
	if !known { // flags that select or measure: one test after the other
		below.argv = slices.Concat(below.argv, flags, []string{"-p", "1", "./integration/..."})
		return together(ctx, []command{below}, out)
	}
	packages, err := list(nil, "./integration/...")
	if err != nil {
		return out.fail(err)
	}
	packages = slices.DeleteFunc(packages, func(p string) bool { return p == module+"/integration" || p == simulation })
	took, most := tookBefore(), howMany()
	beside := []string{"-p", strconv.Itoa(most.packages), "-parallel", strconv.Itoa(most.tests)}
	below.argv = slices.Concat(below.argv, beside, flags, took.longestFirst(packages)) // the user's flags count

	dir, err := os.MkdirTemp("", "suite")
	if err != nil {
		return out.fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "integration.test")
	argv := append(append([]string{"go", "test", "-c", "-json", "-o", binary}, build...), "./integration")
	all := []command{below}
	// Before the others, because what they import is then compiled once.
	names, err := built(ctx, command{what: module + "/integration " + buildFailed, dir: ".", argv: argv}, binary, out)
	if err != nil {
		_ = together(ctx, all, out)
		return err
	}
	compile(ctx, packages)
	for lane, some := range distribute(names, most.lanes, took) {
		name := fmt.Sprintf("%s/integration#%d", module, lane+1)
		argv := []string{"go", "tool", "test2json", "-t", "-p", name, binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout=20m"}
		argv = append(argv, test...)
		all = append(all, command{what: "lane " + strconv.Itoa(lane+1), dir: "integration", argv: append(argv, "-test.run=^("+strings.Join(some, "|")+")$")})
	}
	return together(ctx, all, out)
}

// compile compiles packages and their tests, so that no compiler takes the processors from tests on real
// servers: without a cache they would share them for minutes. The command that tests the packages reports
// what does not compile.
func compile(ctx context.Context, packages []string) {
	argv := append([]string{"list", "-export", "-test", "-f", "{{/**/}}"}, packages...)
	_ = exec.CommandContext(ctx, "go", argv...).Run()
}

// built runs the command that builds a test binary, and returns the binary's tests.
func built(ctx context.Context, build command, binary string, out *lines) ([]string, error) {
	if err := together(ctx, []command{build}, out); err != nil {
		return nil, err
	}
	names, err := testsOf(ctx, binary)
	if err != nil {
		return nil, out.fail(err)
	}
	return names, nil
}

// forBinary returns the flags with which the test binary is built and run. It reports whether they
// leave it open which tests run.
func forBinary(flags []string) (build, test []string, known bool) {
	for _, f := range flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "-"), "=")
		switch name {
		case "race", "vet":
			build = append(build, f)
		case "short", "failfast", "count", "timeout", "parallel", "shuffle":
			test = append(test, "-test."+strings.TrimPrefix(f, "-"))
		case "v":
		default:
			return nil, nil, false
		}
	}
	return build, test, true
}

// selects reports whether the flags say which tests run.
func selects(flags []string) bool {
	_, _, known := forBinary(flags)
	return !known
}

func testsOf(ctx context.Context, binary string) ([]string, error) {
	cmd := exec.CommandContext(ctx, binary, "-test.list", "^(Test|Example)")
	cmd.Dir = "integration"
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s -test.list: %w", binary, err)
	}
	names := strings.Fields(string(out))
	if len(names) == 0 {
		return nil, errors.New("the test binary lists no tests")
	}
	return names, nil
}

// errReported is the error of a command that has reported a failed test or package.
var errReported = errors.New("tests failed")

// together runs commands at the same time, and returns when all have ended. It prints each error that
// a command has not reported as an event, so its error is errReported.
func together(ctx context.Context, commands []command, out *lines) error {
	var failed atomic.Bool
	var wg sync.WaitGroup
	for _, c := range commands {
		wg.Go(func() {
			err := c.run(ctx, out)
			if err == nil {
				return
			}
			failed.Store(true)
			if !errors.Is(err, errReported) {
				_ = out.fail(err)
			}
		})
	}
	wg.Wait()
	if failed.Load() {
		return errReported
	}
	return nil
}

// run runs a command. If ctx ends, so do all processes that it has started: go leaves the binaries of
// tests behind otherwise. What they print after that is dropped, because it is about their end.
func (c command) run(ctx context.Context, out *lines) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute // the script removes containers after the signal
	w := &lineWriter{lines: out, over: ctx.Err}
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	err := cmd.Run()
	w.flush()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case w.reported && cmd.ProcessState.Exited(): // a command that a signal ends has not reported all
		return fmt.Errorf("%s: %w", c.what, errReported)
	}
	return fmt.Errorf("%s: %w", c.what, err)
}

// lines joins what several commands print, line by line.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// fail prints an error as the failure of the package integration, so that the report has it. It returns
// errReported.
func (l *lines) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := json.NewEncoder(l.to)
	for _, e := range []testjson.TestEvent{{Action: testjson.ActionOutput, Output: err.Error() + "\n"}, {Action: testjson.ActionFail}} {
		e.Package = module + "/integration"
		_ = to.Encode(e)
	}
	return errReported
}

// lineWriter is for one command.
type lineWriter struct {
	*lines
	over     func() error // not nil if what the command prints is no longer of interest
	rest     []byte       // the begin of a line
	reported bool         // an event says that a test or a package has failed
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if w.over() != nil {
		return len(p), nil
	}
	w.rest = append(w.rest, p...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	w.reported = w.reported || bytes.Contains(w.rest[:end], []byte(`"Action":"fail"`)) // in a test's output the quotes are escaped
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.to.Write(w.rest[:end])
	w.rest = append([]byte(nil), w.rest[end:]...)
	return len(p), err
}

// flush writes a last line that has no end.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		_, _ = w.Write([]byte{'\n'})
	}
}
