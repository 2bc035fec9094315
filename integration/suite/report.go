package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// quiet is how long nothing may be printed before a line says what runs.
const quiet = 30 * time.Second

// report prints what becomes of the tests. It gets all events of one run, one after the other.
type report struct {
	to    io.Writer
	began time.Time
	flags []string // of go test, for the commands that repeat a test
	env   string   // the same

	slowest int // how many of the slowest tests are listed at the end

	mu      sync.Mutex // guards what follows
	run     *testjson.Execution
	running map[test]time.Time
	printed time.Time
	err     error // of commands that failed without a failed test
}

// test is a test by its package and name.
type test struct{ pkg, name string }

func newReport(to io.Writer, flags []string) *report {
	now := time.Now()
	return &report{to: to, began: now, flags: flags, running: map[test]time.Time{}, printed: now}
}

// Event prints a line for each package that has ended and for each test that has failed.
func (r *report) Event(e testjson.TestEvent, x *testjson.Execution) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = x
	if e.PackageEvent() {
		if p := x.Package(e.Package); p != nil && (e.Action == testjson.ActionPass || e.Action == testjson.ActionFail) && len(p.TestCases())+len(p.Failed) > 0 || e.Action == testjson.ActionFail {
			n := countOf(p)
			r.say("%-4s  %-34s %s, %s", result(e.Action), short(e.Package), n, seconds(p.Elapsed()))
		}
		return nil
	}
	this := test{e.Package, e.Test}
	switch {
	case testjson.TestName(e.Test).IsSubTest():
	case e.Action == testjson.ActionPause: // it waits for other tests
		delete(r.running, this)
	case e.Action == testjson.ActionRun, e.Action == testjson.ActionCont:
		r.running[this] = time.Now()
	case e.Action.IsTerminal():
		delete(r.running, this)
	}
	if e.Action == testjson.ActionFail {
		r.say("FAIL  %s.%s, %s", short(e.Package), e.Test, seconds(time.Duration(e.Elapsed*float64(time.Second))))
	}
	return nil
}

// Err prints what a command says that is no event: what is compiled, pulled, or wrong.
func (r *report) Err(text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text != "" && !strings.HasPrefix(text, "go: downloading") {
		r.say("      %s", text)
	}
	return nil
}

// say prints a line; under r.mu.
func (r *report) say(format string, args ...any) {
	r.printed = time.Now()
	_, _ = fmt.Fprintf(r.to, "%5s  %s\n", clockTime(r.printed.Sub(r.began)), fmt.Sprintf(format, args...))
}

// watch says what runs whenever nothing was printed for a while, until ctx ends.
func (r *report) watch(ctx context.Context) {
	tick := time.NewTicker(quiet / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.sayRunning()
		}
	}
}

func (r *report) sayRunning() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.printed) < quiet {
		return
	}
	if len(r.running) == 0 {
		r.say("      (compiling, or starting servers)")
		return
	}
	oldest := slices.SortedFunc(maps.Keys(r.running), func(a, b test) int { return r.running[a].Compare(r.running[b]) })
	r.say("      (%d tests run, for %s: %s.%s)", len(r.running), seconds(time.Since(r.running[oldest[0]])), short(oldest[0].pkg), oldest[0].name)
}

// count is the number of tests, without those inside of tests.
type count struct{ passed, failed, skipped int }

func (c count) String() string {
	text := fmt.Sprintf("%d tests", c.passed+c.failed+c.skipped)
	if c.failed > 0 {
		text += fmt.Sprintf(", %d failed", c.failed)
	}
	if c.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", c.skipped)
	}
	return text
}

func (c count) plus(d count) count {
	return count{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}

func countOf(p *testjson.Package) count {
	return count{whole(p.Passed), whole(p.Failed), whole(p.Skipped)}
}

// whole counts the tests that are not inside of another one.
func whole(some []testjson.TestCase) (n int) {
	for _, t := range some {
		if t.Test != "" && !t.Test.IsSubTest() {
			n++
		}
	}
	return n
}

// total returns the number of all tests.
func (r *report) total() (all count) {
	if r.run == nil {
		return all
	}
	for _, name := range r.run.Packages() {
		all = all.plus(countOf(r.run.Package(name)))
	}
	return all
}

// failure is nil if every test has passed, and every command.
func (r *report) failure() error {
	switch {
	case r == nil:
		return nil
	case r.run != nil && len(r.run.Failed()) > 0:
		return errors.New("tests failed")
	}
	return r.err
}

// end prints what was skipped, each test that has failed with its output and the command that repeats
// it, and the sums.
func (r *report) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != nil {
		r.endSlowest()
		r.endSkipped()
		r.endFailed()
	}
	if r.err != nil && (r.run == nil || len(r.run.Failed()) == 0) {
		r.printf("\n=== %v\n", r.err)
		if r.run != nil {
			for _, line := range r.run.Errors() {
				r.printf("%s\n", line)
			}
		}
	}
	all := r.total()
	r.printf("\n%d tests passed, %d failed, %d skipped in %s\n", all.passed, all.failed, all.skipped, clockTime(time.Since(r.began)))
}

// endSlowest prints the tests that took longest.
func (r *report) endSlowest() {
	var all []testjson.TestCase
	for _, name := range r.run.Packages() {
		for _, t := range r.run.Package(name).TestCases() {
			if t.Test != "" && !t.Test.IsSubTest() {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b testjson.TestCase) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for i, t := range all[:min(len(all), r.slowest)] {
		if i == 0 {
			r.printf("\n=== slowest\n")
		}
		r.printf("%8s  %s.%s\n", seconds(t.Elapsed), short(t.Package), t.Test)
	}
}

func (r *report) endSkipped() {
	for i, t := range r.run.Skipped() {
		if i == 0 {
			r.printf("\n=== skipped\n")
		}
		r.printf("%s.%s: %s\n", short(t.Package), t.Test, reason(r.run.OutputLines(t)))
	}
}

// reason returns why a test was skipped: its last words.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			_, said, found := strings.Cut(line, ".go:")
			if _, text, ok := strings.Cut(said, ": "); found && ok {
				return text
			}
			return line
		}
	}
	return "no reason given"
}

func (r *report) endFailed() {
	for _, t := range testjson.FilterFailedUnique(r.run.Failed()) {
		name, _ := t.Test.Split()
		if name == "" {
			r.printf("\n=== FAILED: package %s\n", short(t.Package))
		} else {
			r.printf("\n=== FAILED: %s.%s (%s)\n", short(t.Package), t.Test, seconds(t.Elapsed))
		}
		for _, line := range r.run.OutputLines(t) {
			r.printf("%s", line)
		}
		r.printf("repeat it: %s\n", repeat(t.Package, name, r.env, r.flags))
	}
	if errs := r.run.Errors(); len(errs) > 0 && len(r.run.Failed()) > 0 {
		r.printf("\n=== said\n%s\n", strings.Join(errs, "\n"))
	}
}

func (r *report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.to, format, args...) }

// repeat returns the command that repeats a test, or a package if the test has no name.
func repeat(pkg, name, env string, flags []string) string {
	pkg, _, _ = strings.Cut(pkg, "#")
	folder := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	command := "go test"
	if strings.HasPrefix(folder, "contrib/") {
		command = "GOWORK=off go -C " + folder + " test"
		folder = ""
	}
	if folder == "integration" || strings.HasPrefix(folder, "integration/") {
		command = "scripts/integration --with " + command
	}
	words := []string{command, "-count=1"}
	for _, f := range flags {
		if strings.HasPrefix(f, "-race") {
			words = append(words, f)
		}
	}
	if name != "" {
		words = append(words, "-run '^"+name+"$'")
	}
	words = append(words, "./"+folder)
	if env != "" {
		words = append([]string{env}, words...)
	}
	return strings.Join(words, " ")
}

func result(a testjson.Action) string {
	if a == testjson.ActionPass {
		return "ok"
	}
	return "FAIL"
}

// short returns a package's path below the library's module.
func short(pkg string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	if folder, lane, found := strings.Cut(name, "#"); found {
		return folder + ", lane " + lane
	}
	if name == "" {
		return path.Base(module)
	}
	return name
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func clockTime(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
