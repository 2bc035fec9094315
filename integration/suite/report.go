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

// report prints what becomes of the tests. It gets the events of several commands at the same time.
type report struct {
	to    io.Writer
	began time.Time

	slowest int // how many of the slowest tests are listed at the end

	mu      sync.Mutex // guards what follows
	running map[test]time.Time
	printed time.Time

	runs        []outcome // of the commands that have ended
	interrupted bool
	err         error // of commands that failed and reported no failed test
}

// outcome is what a command has printed.
type outcome struct {
	command
	*testjson.Execution
}

// test is a test by its package and name.
type test struct{ pkg, name string }

func newReport(to io.Writer) *report {
	now := time.Now()
	return &report{to: to, began: now, running: map[test]time.Time{}, printed: now}
}

// scan reports what a command prints, until it ends.
func (r *report) scan(c command, printed io.Reader) error {
	x, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: printed, Handler: r, IgnoreNonJSONOutputLines: true})
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.running, func(t test, _ time.Time) bool { return x.Package(t.pkg) != nil })
	r.runs = append(r.runs, outcome{c, x})
	return err
}

// ended notes the error of a command.
func (r *report) ended(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled):
		r.interrupted = true
	case !errors.Is(err, errReported):
		r.err = errors.Join(r.err, err)
	}
}

// Event prints a line for each package that has ended and for each test that has failed.
func (r *report) Event(e testjson.TestEvent, x *testjson.Execution) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.PackageEvent() {
		r.packageEvent(e, x)
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
	if e.Action == testjson.ActionFail && e.Elapsed >= 0 { // less if the test did not finish: the end says so
		r.say("FAIL  %s.%s, %s", short(e.Package), e.Test, seconds(time.Duration(e.Elapsed*float64(time.Second))))
	}
	return nil
}

func (r *report) packageEvent(e testjson.TestEvent, x *testjson.Execution) {
	if e.Action != testjson.ActionPass && e.Action != testjson.ActionFail {
		return
	}
	p := x.Package(e.Package)
	switch {
	case notBuilt(x, testjson.TestCase{Package: e.Package}):
		r.say("FAIL  %-34s does not compile", short(e.Package))
	case e.Action == testjson.ActionFail || len(p.TestCases()) > 0:
		r.say("%-4s  %-34s %s, %s", result(e.Action), short(e.Package), countOf(p), seconds(p.Elapsed()))
	}
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
	r.say("      (%s running, for %s: %s.%s)", number(len(r.running), "test"), seconds(time.Since(r.running[oldest[0]])), short(oldest[0].pkg), oldest[0].name)
}

// count is the number of tests, without those inside of tests.
type count struct{ passed, failed, skipped, unfinished int }

func (c count) String() string {
	text := number(c.passed+c.failed+c.skipped+c.unfinished, "test")
	if c.failed > 0 {
		text += fmt.Sprintf(", %d failed", c.failed)
	}
	if c.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", c.skipped)
	}
	if c.unfinished > 0 {
		text += fmt.Sprintf(", %d not finished", c.unfinished)
	}
	return text
}

func (c count) plus(d count) count {
	return count{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped, c.unfinished + d.unfinished}
}

func countOf(p *testjson.Package) count {
	failed := p.Failed
	var cut []testjson.TestCase
	if wasCut(p) {
		failed, cut = parted(failed)
	}
	return count{whole(p.Passed), whole(failed), whole(p.Skipped), whole(cut)}
}

// wasCut reports whether the command ended before the package did. Tests that had not finished then have
// not failed. If a package fails by a timeout, or because it exits, they have.
func wasCut(p *testjson.Package) bool { return p.Result() != testjson.ActionFail }

// parted separates the tests that finished from those that did not.
func parted(failed []testjson.TestCase) (finished, cut []testjson.TestCase) {
	for _, t := range failed {
		if t.Elapsed < 0 {
			cut = append(cut, t)
		} else {
			finished = append(finished, t)
		}
	}
	return finished, cut
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
	for _, one := range r.runs {
		for _, name := range one.Packages() {
			all = all.plus(countOf(one.Package(name)))
		}
	}
	return all
}

// tests returns all tests, without those inside of tests.
func (r *report) tests() (all []testjson.TestCase) {
	for _, one := range r.runs {
		for _, name := range one.Packages() {
			for _, t := range one.Package(name).TestCases() {
				if t.Test != "" && !t.Test.IsSubTest() {
					all = append(all, t)
				}
			}
		}
	}
	return all
}

// failed returns the tests and packages that failed, those that did not finish because the command was
// ended, and the packages that do not compile.
func (o outcome) failed() (failed, cut, unbuilt []testjson.TestCase) {
	for _, t := range testjson.FilterFailedUnique(o.Failed()) {
		switch {
		case t.Test == "" && notBuilt(o.Execution, t):
			unbuilt = append(unbuilt, t)
		case t.Elapsed < 0 && wasCut(o.Package(t.Package)):
			cut = append(cut, t)
		default:
			failed = append(failed, t)
		}
	}
	return failed, cut, unbuilt
}

const buildFailed = "[build failed]" // go test says so

func notBuilt(x *testjson.Execution, pkg testjson.TestCase) bool {
	said := strings.Join(x.OutputLines(pkg), "")
	return strings.Contains(said, buildFailed) || strings.Contains(said, "[setup failed]")
}

// failure is nil if every test has passed, and every command.
func (r *report) failure() error {
	var all []error
	if r.interrupted {
		all = append(all, errInterrupted)
	}
	if slices.ContainsFunc(r.runs, func(o outcome) bool { failed, _, unbuilt := o.failed(); return len(failed)+len(unbuilt) > 0 }) {
		all = append(all, errReported)
	}
	return errors.Join(append(all, r.err)...)
}

// end prints what was skipped, each test that has failed with its output and the command that repeats
// it, what does not compile, what was not tested, and the sums.
func (r *report) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endSlowest()
	r.endSkipped()
	r.endFailed()
	r.endUnbuilt()
	if r.interrupted {
		r.printf("\n=== interrupted: not all tests were run\n")
	}
	if r.err != nil {
		r.printf("\n=== %v\n", r.err)
	}
	r.endUnfinished()
	all := r.total()
	unfinished := ""
	if all.unfinished > 0 {
		unfinished = fmt.Sprintf(", %d not finished", all.unfinished)
	}
	r.printf("\n%s passed, %d failed, %d skipped%s in %s\n", number(all.passed, "test"), all.failed, all.skipped, unfinished, clockTime(time.Since(r.began)))
}

// endSlowest prints the tests that took longest.
func (r *report) endSlowest() {
	all := r.tests()
	slices.SortFunc(all, func(a, b testjson.TestCase) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for i, t := range all[:min(len(all), r.slowest)] {
		if i == 0 {
			r.printf("\n=== slowest\n")
		}
		r.printf("%8s  %s.%s\n", seconds(t.Elapsed), short(t.Package), t.Test)
	}
}

func (r *report) endSkipped() {
	begun := false
	for _, one := range r.runs {
		for _, t := range one.Skipped() {
			if !begun {
				r.printf("\n=== skipped\n")
				begun = true
			}
			r.printf("%s.%s: %s\n", short(t.Package), t.Test, reason(one.OutputLines(t)))
		}
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
	for _, one := range r.runs {
		failed, _, _ := one.failed()
		for _, t := range failed {
			name, _ := t.Test.Split()
			if name == "" {
				r.printf("\n=== FAILED: package %s\n", short(t.Package))
			} else {
				r.printf("\n=== FAILED: %s.%s (%s)\n", short(t.Package), t.Test, seconds(t.Elapsed))
			}
			for _, line := range one.OutputLines(t) {
				r.printf("%s", line)
			}
			r.printf("repeat it: %s\n", repeat(one.command, t.Package, name))
		}
	}
}

// endUnbuilt prints the compiler's errors, each once, and the packages that do not compile because of
// them.
func (r *report) endUnbuilt() {
	var errs, packages []string
	seen := map[string]bool{}
	for _, one := range r.runs {
		for _, line := range one.Errors() {
			line = strings.TrimRight(line, "\n")
			// A module in a folder below names the same file with dots.
			if file := strings.TrimLeft(line, "./"); !seen[file] {
				seen[file] = true
				errs = append(errs, line)
			}
		}
		_, _, unbuilt := one.failed()
		for _, t := range unbuilt {
			packages = append(packages, short(t.Package))
		}
	}
	if len(errs) > 0 {
		r.printf("\n=== FAILED: the compiler says\n%s\n", strings.Join(errs, "\n"))
	}
	if len(packages) > 0 {
		r.printf("\n=== NOT TESTED, because it does not compile: %s\n", strings.Join(packages, ", "))
	}
}

// endUnfinished prints which tests ran when their command was ended.
func (r *report) endUnfinished() {
	begun := false
	for _, one := range r.runs {
		_, cut, _ := one.failed()
		for _, t := range cut {
			if !begun {
				r.printf("\n=== not finished\n")
				begun = true
			}
			r.printf("%s.%s\n", short(t.Package), t.Test)
		}
	}
}

func (r *report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.to, format, args...) }

// repeat returns the command that repeats a test of a command, or a package if the test has no name: with
// the same flags and environment.
func repeat(c command, pkg, name string) string {
	pkg, _, _ = strings.Cut(pkg, "#")
	folder := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	words := slices.Clone(c.env)
	if folder == "integration" || strings.HasPrefix(folder, "integration/") && pkg != simulation {
		words = append(words, "scripts/integration", "--with")
	}
	words = append(words, "go")
	if c.dir != "." {
		words = append(words, "-C", c.dir)
		folder = strings.TrimPrefix(strings.TrimPrefix(folder, c.dir), "/")
	}
	words = append(words, "test")
	words = append(words, c.flags...)
	if !slices.Contains(c.flags, "-count=1") {
		words = append(words, "-count=1")
	}
	if name != "" {
		words = append(words, "-run", "^"+name+"$") // the last one counts
	}
	words = append(words, "./"+folder)
	for i, w := range words {
		if strings.ContainsAny(w, " \t\"$|^*?()[]{}<>&;#`\\'") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
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

// number returns how many things there are.
func number(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}

func seconds(d time.Duration) string {
	if d < 0 {
		return "not finished"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func clockTime(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
