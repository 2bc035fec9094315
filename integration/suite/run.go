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
	"time"

	"gotest.tools/gotestsum/testjson"

	"github.com/quorumlock/go-redlock/internal/late"
)

// tookFile remembers how long all tests took on this machine.
const tookFile = ".suite-took"

// runAll runs the tests, and prints what becomes of them.
func runAll(ctx context.Context, s settings) (*report, error) {
	engine := ""
	if s.only != "unit" {
		engine = dockerEngine(ctx)
	}
	chains, err := plan(s, engine)
	if err != nil {
		return nil, err
	}
	announce(os.Stdout, s, engine)
	r := newReport(os.Stdout, s.flags)
	r.slowest = s.slowest
	if late.On() {
		r.env = late.Variable + "=" + os.Getenv(late.Variable)
	}
	watching, done := context.WithCancel(ctx)
	go r.watch(watching)
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		var err error
		for _, some := range chains {
			err = errors.Join(err, runChains(ctx, some, &lines{to: to}))
		}
		ended <- err
		_ = to.Close()
	}()
	_, scanned := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: from, Handler: r, IgnoreNonJSONOutputLines: true})
	if scanned != nil {
		_, _ = io.Copy(io.Discard, from) // the commands must not block
	}
	r.err = errors.Join(<-ended, scanned)
	done()
	r.end()
	if s.only != "unit" && engine == "" {
		fmt.Println("NOT TESTED: what needs real Redis servers, because no Docker engine answers. Start one, or set DOCKER_HOST.")
		if os.Getenv("CI") == "true" {
			return r, errors.New("no Docker engine answers, and CI=true forbids to skip these tests")
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

// plan returns what runs one after the other: lists of chains that run at the same time.
func plan(s settings, engine string) (all [][]chain, err error) {
	if s.only != "servers" {
		c, err := unit(s)
		if err != nil {
			return nil, err
		}
		all = append(all, []chain{c})
	}
	if s.only != "unit" && engine != "" {
		c, err := servers(s)
		if err != nil {
			return nil, err
		}
		all = append(all, []chain{c})
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
	say("Tests: %s.", strings.Join(parts, ", then "))
	if took, err := os.ReadFile(tookFile); err == nil && s.only == "" {
		say("Time: all of them took %s here.", strings.TrimSpace(string(took)))
	} else {
		say("Time: all of them take about 5 minutes on two idle processors, and some minutes more if all has to be compiled first.")
	}
	switch {
	case s.only == "unit":
	case engine == "":
		say("Docker: no engine answers. The tests on real servers are NOT run.")
	default:
		say("Docker: engine %s.", engine)
	}
	if slices.Contains(s.flags, "-race=false") {
		say("Race detector: off, because there is no C compiler, or it was switched off.")
	}
	if seed := os.Getenv(late.Variable); seed != "" {
		say("Late mode: one of three nodes sees requests late, as the seed %s decides.", seed)
	}
	say("")
}

// mostLeftOut is the share of tests that the late mode may leave out.
const mostLeftOut = 0.05

// runLate runs the tests in late mode, once for each seed.
func runLate(ctx context.Context, s settings) error {
	said := []string{}
	var failed error
	for _, seed := range s.seeds {
		_ = os.Setenv(late.Variable, seed)
		one := s
		one.flags = append(slices.Clone(s.flags), "-count=1")
		r, err := runAll(ctx, one)
		if r == nil {
			return err
		}
		all, out := r.total(), r.leftOut()
		n := all.passed + all.failed + all.skipped
		said = append(said, fmt.Sprintf("seed %s: %d tests passed, %d failed, %d of %d left out, %s", seed, all.passed, all.failed, out, n, clockTime(time.Since(r.began))))
		if float64(out) > mostLeftOut*float64(n) {
			err = errors.Join(err, fmt.Errorf("seed %s: more than %.0f %% of the tests are left out", seed, 100*mostLeftOut))
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Printf("\n=== late mode\n%s\n", strings.Join(said, "\n"))
	return failed
}

// leftOut counts the tests that the late mode leaves out, wholly or in part.
func (r *report) leftOut() int {
	out := map[test]bool{}
	for _, t := range r.run.Skipped() {
		if strings.HasPrefix(reason(r.run.OutputLines(t)), "late: left out") {
			name, _ := t.Test.Split()
			out[test{t.Package, name}] = true
		}
	}
	return len(out)
}

func processors() int { return runtime.NumCPU() }
