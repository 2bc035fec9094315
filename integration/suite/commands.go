package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/internal/late"
)

// module is the path of the library's module, and the prefix of all others.
const module = "github.com/quorumlock/go-redlock"

// lanes is how many processes share the tests of the folder integration. Each has servers of its own.
// To start containers keeps processors busy: with more lanes the same tests take as long in all, and
// each of them much longer.
const lanes = 3

// command is a program that prints what `go test -json` prints.
type command struct {
	what string // for a message, if it fails without a failed test
	dir  string
	env  []string
	argv []string
}

// chain is a list of commands that run one after the other, whatever becomes of them.
type chain []command

// unit returns the tests that need no Docker. Each module is tested with the dependencies that users
// get.
func unit(s settings) (chain, error) {
	alone := []string{"GOWORK=off"}
	packages := []string{"./..."}
	modules, err := filepath.Glob("contrib/*/go.mod")
	if err != nil {
		return nil, err
	}
	test := func(what, dir string, flags ...string) command {
		argv := append([]string{"go", "test", "-json", "-timeout", "20m"}, flags...)
		return command{what: what, dir: dir, env: alone, argv: append(argv, packages...)}
	}
	if late.On() {
		if packages, err = lateable(); err != nil {
			return nil, err
		}
	}
	// One package more than there are processors is tested at a time, because some tests wait.
	flags := append([]string{"-p", strconv.Itoa(processors() + 1)}, s.flags...)
	if s.cover != "" {
		flags = append(flags, "-coverprofile="+s.cover, "-covermode=atomic")
	}
	c := chain{test("the library", ".", flags...)}
	packages = []string{"./..."}
	for _, m := range modules {
		dir := filepath.Dir(m)
		c = append(c, test(dir, dir, s.flags...))
	}
	if !late.On() && !selects(s.flags) {
		// Under the race detector most searches of the model are left out.
		c = append(c, command{what: "the model", dir: ".", env: alone, argv: []string{"go", "test", "-json", "-race=false", "./internal/model"}})
	}
	return c, nil
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

// servers returns the tests on real servers. The script finds or builds images, and removes what
// containers a crash has left.
func servers(s settings) (chain, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append([]string{"scripts/integration", "--with", self, "-lanes", "--"}, s.flags...)
	return chain{{what: "the tests on real servers", dir: ".", argv: argv}}, nil
}

// runLanes runs the tests on real servers: those of the folder integration in lanes, and beside them
// the packages below it.
func runLanes(ctx context.Context, flags []string) error {
	out := &lines{to: os.Stdout}
	below := command{what: "integration", dir: ".", argv: append([]string{"go", "test", "-json", "-count=1", "-timeout", "20m"}, flags...)}
	build, test, known := forBinary(flags)
	for _, f := range flags {
		if strings.HasPrefix(f, "-race") { // the programs that tests build are compiled as the tests are: what they import is compiled once
			_ = os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" "+f))
		}
	}
	if !known { // flags that select or measure: one test after the other
		below.argv = append(below.argv, "-p", "1", "./integration/...")
		return below.run(ctx, out)
	}
	listed, err := exec.CommandContext(ctx, "go", "list", "./integration/...").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	packages := slices.DeleteFunc(strings.Fields(string(listed)), func(p string) bool { return p == module+"/integration" })
	below.argv = append(append(below.argv, "-p", "2"), packages...)

	dir, err := os.MkdirTemp("", "suite")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "integration.test")
	argv := append(append([]string{"test", "-c", "-o", binary}, build...), "./integration")
	if said, err := exec.CommandContext(ctx, "go", argv...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(argv, " "), err, said)
	}
	names, err := testsOf(ctx, binary)
	if err != nil {
		return err
	}
	all := []chain{{below}}
	for lane, some := range distribute(names, lanes, tookBefore()) {
		name := fmt.Sprintf("%s/integration#%d", module, lane+1)
		argv := []string{"go", "tool", "test2json", "-t", "-p", name, binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout=20m"}
		argv = append(argv, test...)
		all = append(all, chain{{what: "lane " + strconv.Itoa(lane+1), dir: "integration", argv: append(argv, "-test.run=^("+strings.Join(some, "|")+")$")}})
	}
	return runChains(ctx, all, out)
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

// runChains runs chains at the same time, and returns when all have ended.
func runChains(ctx context.Context, chains []chain, out *lines) error {
	errs := make([]error, len(chains))
	var wg sync.WaitGroup
	for i, c := range chains {
		wg.Go(func() {
			for _, cmd := range c {
				errs[i] = errors.Join(errs[i], cmd.run(ctx, out))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// run runs a command. If ctx ends, so do all processes that it has started: go leaves the binaries of
// tests behind otherwise.
func (c command) run(ctx context.Context, out *lines) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second // what a process that ignores the signal may still print
	w := out.writer()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	err := cmd.Run()
	w.flush()
	if err != nil {
		return fmt.Errorf("%s: %w", c.what, err)
	}
	return nil
}

// lines joins what several commands print, line by line.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) writer() *lineWriter { return &lineWriter{lines: l} }

// lineWriter is for one command.
type lineWriter struct {
	*lines
	rest []byte // the begin of a line
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
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
