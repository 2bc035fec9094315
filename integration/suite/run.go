package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/late"
)

// tookFile remembers how long all tests took on this machine.
const tookFile = ".suite-took"

// errInterrupted is what a signal ends a run with.
var errInterrupted = errors.New("interrupted")

// runAll runs the tests, and prints what becomes of them.
func runAll(ctx context.Context, s settings) (*report, error) {
	engine := ""
	if s.only != "unit" {
		engine = dockerEngine(ctx)
	}
	stages, err := plan(s, engine)
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	if err != nil {
		return nil, err
	}
	announce(os.Stdout, s, engine)
	r := newReport(os.Stdout)
	r.slowest = s.slowest
	watching, done := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching) })
	for _, one := range stages {
		r.followAll(ctx, one)
	}
	done()
	watch.Wait()
	r.end()
	if s.only != "unit" && engine == "" {
		fmt.Println("NOT TESTED: what needs real Redis servers, because no Docker engine answers. Start one, or set DOCKER_HOST.")
		if os.Getenv("CI") == "true" {
			return r, errors.Join(r.failure(), errors.New("no Docker engine answers, and CI=true forbids to skip these tests"))
		}
	}
	if err := r.failure(); err != nil {
		return r, err
	}
	if s.remember {
		if err := r.remember(); err != nil {
			return r, err
		}
	}
	if s.only == "" && engine != "" && len(s.flags) <= 1 && !late.On() {
		_ = os.WriteFile(tookFile, []byte(clockTime(time.Since(r.began))+"\n"), 0o600)
	}
	return r, nil
}

// followAll runs a stage, and reports what its commands print.
func (r *report) followAll(ctx context.Context, s stage) {
	var wg sync.WaitGroup
	for _, row := range s {
		wg.Go(func() {
			for _, c := range row {
				r.ended(r.follow(ctx, c))
			}
		})
	}
	wg.Wait()
}

// follow runs a command, and reports what it prints.
func (r *report) follow(ctx context.Context, c command) error {
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- c.run(ctx, &lines{to: to})
		_ = to.Close()
	}()
	scanned := r.scan(c, from)
	if scanned != nil {
		_, _ = io.Copy(io.Discard, from) // the command must not block
		return errors.Join(errors.New(c.what), scanned, <-ended)
	}
	return <-ended
}

// stage is rows of commands. The rows run at the same time, and the commands of a row one after the other.
type stage [][]command

// plan returns what runs, one stage after the other.
func plan(s settings, engine string) (all []stage, err error) {
	if s.only != "servers" {
		first, err := unit(s)
		if err != nil {
			return nil, err
		}
		all = append(all, first)
	}
	if s.only != "unit" && engine != "" {
		if s.only == "" { // the race detector has seen the library in the stage before; make test-integration has it on
			s.flags = raceless(s.flags)
		}
		c, err := servers(s)
		if err != nil {
			return nil, err
		}
		all = append(all, stage{{c}})
	}
	return all, nil
}

// dockerEngine returns the version of the engine, or "" if none answers.
func dockerEngine(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// announce says what will be done, how long it takes, and what is missing.
func announce(to io.Writer, s settings, engine string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(to, format+"\n", args...) }
	var parts []string
	if s.only != "servers" {
		parts = append(parts, "those that need no Docker")
	}
	if s.only != "unit" && engine != "" {
		parts = append(parts, "those on real Redis servers, in containers that they start and remove")
	}
	if parts == nil {
		parts = []string{"none"}
	}
	say("Tests: %s.", strings.Join(parts, ", then "))
	switch took := tookHere(); {
	case s.only != "" || late.On() || selects(s.flags): // it is not known
	case took > 0:
		say("Time: all of them took %s here.", clockTime(took))
	default:
		say("Time: all of them take about 5 minutes on two idle processors, and some minutes more if all has to be compiled first.")
	}
	switch {
	case s.only == "unit":
	case engine == "":
		say("Docker: no engine answers. The tests on real servers are NOT run.")
	default:
		say("Docker: engine %s.", engine)
	}
	if off := raceOff(s.flags); off != "" {
		say("Race detector: off, because %s.", off)
	}
	if seed := os.Getenv(late.Variable); seed != "" {
		say("Late mode: one of three nodes sees requests late, as the seed %s decides.", seed)
	}
	say("")
}

// tookHere returns how long all tests took on this machine, or 0 if that is not known.
func tookHere() time.Duration {
	var minutes, seconds int
	text, err := os.ReadFile(tookFile)
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscanf(string(text), "%d:%d", &minutes, &seconds); err != nil {
		return 0
	}
	return time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second
}

// raceless returns the flags of a test without the race detector.
func raceless(flags []string) []string {
	return append(slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.HasPrefix(f, "-race") }), "-race=false")
}

// raceOff says why the race detector is off, or nothing.
func raceOff(flags []string) string {
	on, said := false, false
	for _, f := range append(strings.Fields(os.Getenv("GOFLAGS")), flags...) {
		if name, value, _ := strings.Cut(f, "="); name == "-race" {
			on, said = value == "" || value == "true", true
		}
	}
	if on {
		return ""
	}
	out, _ := exec.Command("go", "env", "CC").Output()
	if cc, _, _ := strings.Cut(strings.TrimSpace(string(out)), " "); cc != "" {
		if _, err := exec.LookPath(cc); err != nil {
			return "there is no C compiler, " + cc
		}
	}
	if !said {
		return "no flag asks for it"
	}
	return "a flag says so"
}

// mostLeftOut is the share of tests that the late mode may leave out.
const mostLeftOut = 0.05

// runLate runs the tests in late mode, once for each seed.
func runLate(ctx context.Context, s settings) error {
	if took := tookHere(); took > 0 && s.only == "" && !selects(s.flags) {
		fmt.Printf("Time: with %d seeds about %d minutes, because all tests took %s here once.\n\n", len(s.seeds), int((took*time.Duration(len(s.seeds))).Minutes())+1, clockTime(took))
	}
	said := []string{}
	var failed error
	for _, seed := range s.seeds {
		_ = os.Setenv(late.Variable, seed)
		one := s
		one.flags = append(slices.Clone(s.flags), "-count=1")
		r, err := runAll(ctx, one)
		if r != nil {
			said = append(said, fmt.Sprintf("seed %s: %s, %d left out, %s", seed, r.total(), r.leftOut(), clockTime(time.Since(r.began))))
			if err == nil {
				err = r.enough()
			}
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("seed %s: %w", seed, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Printf("\n=== late mode\n%s\n", strings.Join(said, "\n"))
	return failed
}

// enough fails if the late mode has tested nothing, or has left out too much.
func (r *report) enough() error {
	all := r.total()
	n := all.passed + all.failed + all.skipped
	switch {
	case n == 0:
		return errors.New("no test has run")
	case float64(r.leftOut()) > mostLeftOut*float64(n):
		return fmt.Errorf("more than %.0f %% of the tests are left out", 100*mostLeftOut)
	}
	return nil
}

// leftOut counts the tests that the late mode leaves out, wholly or in part.
func (r *report) leftOut() int {
	out := map[test]bool{}
	for _, one := range r.runs {
		for _, t := range one.Skipped() {
			if strings.HasPrefix(reason(one.OutputLines(t)), "late: left out") {
				name, _ := t.Test.Split()
				out[test{t.Package, name}] = true
			}
		}
	}
	return len(out)
}

func processors() int { return runtime.NumCPU() }
