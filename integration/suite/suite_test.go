package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gotest.tools/gotestsum/testjson"

	"github.com/quorumlock/go-redlock/internal/late"
)

// played is the report of a command that prints the given lines.
func played(t *testing.T, printed ...string) (*report, string) {
	t.Helper()
	var said bytes.Buffer
	r := newReport(&said)
	require.NoError(t, r.scan(command{dir: ".", flags: []string{"-race=true"}}, strings.NewReader(strings.Join(printed, "\n"))))
	r.end()
	return r, said.String()
}

const (
	okTest      = `{"Action":"pass","Package":"github.com/quorumlock/go-redlock/pool","Test":"TestOK","Elapsed":0.1}`
	okSub       = `{"Action":"pass","Package":"github.com/quorumlock/go-redlock/pool","Test":"TestOK/a","Elapsed":0.1}`
	badOutput   = `{"Action":"output","Package":"github.com/quorumlock/go-redlock/pool","Test":"TestBad","Output":"    x_test.go:1: it broke\n"}`
	badTest     = `{"Action":"fail","Package":"github.com/quorumlock/go-redlock/pool","Test":"TestBad","Elapsed":1.5}`
	badPackage  = `{"Action":"fail","Package":"github.com/quorumlock/go-redlock/pool","Elapsed":2}`
	okLane      = `{"Action":"pass","Package":"github.com/quorumlock/go-redlock/integration#2","Test":"TestServer","Elapsed":1}`
	okLaneEnd   = `{"Action":"pass","Package":"github.com/quorumlock/go-redlock/integration#2","Elapsed":60}`
	skipOutput  = `{"Action":"output","Package":"github.com/quorumlock/go-redlock/clock","Test":"TestSkip","Output":"    x_test.go:7: late: left out: it measures times\n"}`
	skipOutput2 = `{"Action":"output","Package":"github.com/quorumlock/go-redlock/clock","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}`
	skipTest    = `{"Action":"skip","Package":"github.com/quorumlock/go-redlock/clock","Test":"TestSkip","Elapsed":0}`
	crash       = `{"Action":"output","Package":"github.com/quorumlock/go-redlock/clock","Output":"panic: oh\n"}`
	crashed     = `{"Action":"fail","Package":"github.com/quorumlock/go-redlock/clock","Elapsed":2}`
)

func TestAPackageAndALaneAreReportedWhenTheyHaveEnded(t *testing.T) {
	r, said := played(t, okSub, okTest, `{"Action":"pass","Package":"github.com/quorumlock/go-redlock/pool","Elapsed":2}`, okLane, okLaneEnd)
	require.NoError(t, r.failure())
	assert.Regexp(t, `ok    pool +1 test, 2\.0 s`, said)
	assert.Regexp(t, `ok    integration, lane 2 +1 test, 60\.0 s`, said)
	assert.Regexp(t, `\n2 tests passed, 0 failed, 0 skipped in \d+:\d\d\n$`, said)
}

func TestAFailureStopsNothingAndIsToldAtTheEndWithTheCommandThatRepeatsIt(t *testing.T) {
	r, said := played(t, badOutput, badTest, badPackage, okLane, okLaneEnd)
	require.Error(t, r.failure())
	assert.Contains(t, said, "FAIL  pool.TestBad, 1.5 s\n")
	assert.Regexp(t, `FAIL  pool +1 test, 1 failed, 2\.0 s`, said)
	assert.Contains(t, said, "=== FAILED: pool.TestBad (1.5 s)\n    x_test.go:1: it broke\nrepeat it: go test -race=true -count=1 -run '^TestBad$' ./pool\n")
	assert.Regexp(t, `\n1 test passed, 1 failed, 0 skipped in \d+:\d\d\n$`, said)
}

func TestAPackageThatCrashesFails(t *testing.T) {
	r, said := played(t, okTest, crash, crashed)
	require.Error(t, r.failure())
	assert.Contains(t, said, "=== FAILED: package clock\npanic: oh\nrepeat it: go test -race=true -count=1 ./clock\n")
}

// followed is the report of commands that run one after the other.
func followed(ctx context.Context, r *report, commands ...command) {
	r.followAll(ctx, stage{commands})
	r.end()
}

func prints(what string, status int, lines ...string) command {
	return command{what: what, dir: ".", argv: append([]string{"sh", "-c", fmt.Sprintf(`printf '%%s\n' "$@"; exit %d`, status), "sh"}, lines...)}
}

func TestACommandThatFailsWithoutAFailedTestIsAlwaysSaid(t *testing.T) {
	var said bytes.Buffer
	r := newReport(&said)
	followed(t.Context(), r, prints("the library", 1, badTest, badPackage), prints("the tests on real servers", 1, "no image"), prints("more", 0, okTest))
	require.EqualError(t, r.failure(), "tests failed\nthe tests on real servers: exit status 1")
	assert.Contains(t, said.String(), "\n=== the tests on real servers: exit status 1\n")
	assert.NotContains(t, said.String(), "the library: exit")
}

func TestACommandThatASignalEndsIsSaidThoughItReportedAFailedTest(t *testing.T) {
	c := prints("it", 1, badTest)
	c.argv[2] = `printf '%s\n' "$@"; kill -9 $$`
	require.EqualError(t, newReport(&bytes.Buffer{}).follow(t.Context(), c), "it: signal: killed")
}

// A package fails in one run and passes in the next: some of its tests run without the race detector.
func TestAPackageThatFailsOnceFails(t *testing.T) {
	var said bytes.Buffer
	r := newReport(&said)
	without := prints("again", 1, crash, crashed)
	without.env, without.flags = []string{"GOWORK=off"}, []string{"-race=false"}
	followed(t.Context(), r, without, prints("once", 0, strings.Replace(crashed, "fail", "pass", 1)))
	require.Error(t, r.failure())
	assert.Contains(t, said.String(), "repeat it: GOWORK=off go test -race=false -count=1 ./clock\n")
}

func TestAnInterruptionIsSaidAndBlamesNoTest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said bytes.Buffer
	r := newReport(&said)
	c := prints("it", 1, `{"Action":"run","Package":"github.com/quorumlock/go-redlock/pool","Test":"TestRuns"}`, badTest, badPackage)
	c.argv[2] = `trap 'printf "%s\n" "$3"; exit 1' TERM; printf '%s\n' "$1" "$2"; while :; do sleep 0.01; done`
	r.to = &whenWritten{to: &said, do: cancel} // TestBad has failed
	followed(ctx, r, c)
	require.ErrorIs(t, r.failure(), errInterrupted)
	assert.Contains(t, said.String(), "\n=== interrupted: not all tests were run\n\n=== not finished\npool.TestRuns\n")
	assert.Contains(t, said.String(), "=== FAILED: pool.TestBad")
	assert.NotContains(t, said.String(), "FAILED: pool.TestRuns")
	assert.NotContains(t, said.String(), "FAIL  pool ")
}

func TestATestThatRanWhenItsCommandEndedIsNotFinishedAndWhenItsPackageFailedItFailed(t *testing.T) {
	runs := `{"Action":"run","Package":"github.com/quorumlock/go-redlock/pool","Test":"TestRuns"}`
	r, said := played(t, okTest, runs)
	assert.Equal(t, count{passed: 1, unfinished: 1}, r.total())
	assert.Contains(t, said, "\n=== not finished\npool.TestRuns\n")
	assert.Regexp(t, `\n1 test passed, 0 failed, 0 skipped, 1 not finished in \d+:\d\d\n`, said)
	assert.NotContains(t, said, "FAIL")
	r, said = played(t, okTest, runs, badPackage)
	require.Error(t, r.failure())
	assert.Equal(t, count{passed: 1, failed: 1}, r.total())
	assert.Contains(t, said, "=== FAILED: pool.TestRuns (not finished)\n")
}

func TestWhatDoesNotCompileIsSaidOnce(t *testing.T) {
	failed := func(pkg, file string) []string {
		return []string{
			`{"ImportPath":"x","Action":"build-output","Output":"# x\n"}`,
			`{"ImportPath":"x","Action":"build-output","Output":"` + file + `:2:13: undefined: y\n"}`,
			`{"ImportPath":"x","Action":"build-fail"}`,
			`{"Action":"output","Package":"` + module + pkg + `","Output":"FAIL\t` + module + pkg + ` [build failed]\n"}`,
			`{"Action":"fail","Package":"` + module + pkg + `","Elapsed":0,"FailedBuild":"x"}`,
		}
	}
	r, said := played(t, slices.Concat(failed("/pool", "a.go"), failed("/clock", "./a.go"), failed("/contrib/sqlfence", "../../a.go"))...)
	require.Error(t, r.failure())
	assert.Equal(t, 1, strings.Count(said, "undefined: y"))
	assert.Contains(t, said, "\n=== FAILED: the compiler says\na.go:2:13: undefined: y\n\n=== NOT TESTED, because it does not compile: clock, contrib/sqlfence, pool\n")
	assert.NotContains(t, said, "repeat it")
	assert.Regexp(t, `FAIL  pool +does not compile`, said)
}

// The others run although the folder integration does not compile.
func TestAnErrorOfALaneIsAnEventAndStopsNoOther(t *testing.T) {
	var out bytes.Buffer
	err := together(t.Context(), []command{prints("lane 1", 2), prints("integration", 0, okTest), prints("lane 2", 1, badTest)}, &lines{to: &out})
	require.ErrorIs(t, err, errReported)
	r, said := played(t, strings.Split(out.String(), "\n")...)
	require.Error(t, r.failure())
	assert.Contains(t, said, "=== FAILED: package integration\nlane 1: exit status 2\n")
	assert.NotContains(t, said, "lane 2")
	assert.Equal(t, 1, r.total().passed)

	out.Reset()
	_, err = built(t.Context(), prints(module+"/integration "+buildFailed, 1), "", &lines{to: &out})
	require.ErrorIs(t, err, errReported)
	_, said = played(t, out.String())
	assert.Contains(t, said, "=== NOT TESTED, because it does not compile: integration\n")
}

func TestTheReasonOfASkippedTestIsSaidAndTheLateModeCountsItsOwn(t *testing.T) {
	r, said := played(t, skipOutput, skipOutput2, skipTest)
	assert.Contains(t, said, "=== skipped\nclock.TestSkip: late: left out: it measures times\n")
	assert.Equal(t, 1, r.leftOut())
	assert.Equal(t, count{skipped: 1}, r.total())
}

func TestTheCommandThatRepeatsATestHasItsModuleFlagsAndEnvironment(t *testing.T) {
	t.Setenv(late.Variable, "7")
	s := settings{flags: []string{"-short", "-run=X|Y", "-count=1"}}
	servers, err := servers(s)
	require.NoError(t, err)
	contrib := command{dir: "contrib/otelredlock", env: []string{"GOWORK=off"}}
	for _, c := range []struct {
		of        command
		pkg, want string
	}{
		{servers, "/integration#3", "REDLOCK_TEST_LATE=7 scripts/integration --with go test -short '-run=X|Y' -count=1 -run '^TestX$' ./integration"},
		{servers, "/integration/deployed", "REDLOCK_TEST_LATE=7 scripts/integration --with go test -short '-run=X|Y' -count=1 -run '^TestX$' ./integration/deployed"},
		{contrib, "/contrib/otelredlock", "GOWORK=off go -C contrib/otelredlock test -count=1 -run '^TestX$' ./"},
		{contrib, "/contrib/otelredlock/x", "GOWORK=off go -C contrib/otelredlock test -count=1 -run '^TestX$' ./x"},
	} {
		assert.Equal(t, c.want, repeat(c.of, module+c.pkg, "TestX"))
	}
}

func TestSomeTestsRunWithoutTheRaceDetectorAndAreRepeatedSo(t *testing.T) {
	t.Chdir("../..")
	t.Setenv(late.Variable, "")
	all, err := unit(settings{flags: []string{"-race=true", "-short"}})
	require.NoError(t, err)
	assert.Equal(t, "GOWORK=off go test -race=true -short -count=1 -run '^TestX$' ./pool", repeat(all[0][0], module+"/pool", "TestX"))
	others := all[1]
	sim, files := others[len(others)-2], others[len(others)-1]
	assert.Equal(t, "GOWORK=off go test -short -race=false -count=1 -run '^TestX$' ./internal/server", repeat(files, module+"/internal/server", "TestX"))
	assert.Equal(t, "GOWORK= go test -short -race=false -count=1 -run '^TestX$' ./integration/sim", repeat(sim, simulation, "TestX"))
	said := strings.Join(files.argv, " ")
	assert.Contains(t, said, "TestProcessesTakeTurns|")
	for _, p := range []string{"/internal/server", "/internal/waiting", "/redlock"} {
		assert.Contains(t, files.argv, module+p)
	}
	assert.NotContains(t, files.argv, module+"/clock", "none of its files has")
	assert.NotContains(t, said, "TestALongValueIsNotDownloaded", "its file has no such line")

	all, err = unit(settings{flags: []string{"-race=false"}})
	require.NoError(t, err)
	others = all[1]
	assert.Contains(t, others[len(others)-1].argv, simulation)
}

func TestTheTestsOnRealServersHaveTheRaceDetectorAlone(t *testing.T) {
	t.Chdir("../..")
	for only, want := range map[string]string{"": "-race=false", "servers": "-race=true"} {
		all, err := plan(settings{only: only, flags: []string{"-race=true"}}, "an engine")
		require.NoError(t, err)
		last := all[len(all)-1][0][0]
		assert.Equal(t, []string{want}, last.flags)
		assert.Equal(t, want, last.argv[len(last.argv)-1])
	}
}

func TestTheLateModeLeavesOutModulesThatCanHaveNoLateNode(t *testing.T) {
	t.Chdir("../..")
	t.Setenv(late.Variable, "1")
	all, err := unit(settings{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "cmd/redlock", all[1][0].dir)
	assert.Contains(t, all[0][0].argv, module+"/redlock")
	assert.NotContains(t, all[0][0].argv, module+"/pool")
}

func TestTheLateModeFailsIfItTestsNothing(t *testing.T) {
	r := newReport(&bytes.Buffer{})
	require.EqualError(t, r.enough(), "no test has run")
	assert.Zero(t, r.leftOut())
	r, _ = played(t, okTest)
	require.NoError(t, r.enough())
	r, _ = played(t, okTest, skipOutput, skipTest)
	require.ErrorContains(t, r.enough(), "5 %")
}

func TestArgumentsThatMeanNothingAreErrors(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"late"}), "late is no flag")
	require.ErrorContains(t, run(t.Context(), []string{"-late", "1 x"}), "-late x: a seed is a whole number")
	require.ErrorContains(t, run(t.Context(), []string{"-only", "some"}), "-only some: unit or servers")
}

func TestSilenceIsEndedByALineThatSaysWhatRuns(t *testing.T) {
	var said bytes.Buffer
	r := newReport(&said)
	r.sayRunning()
	assert.Empty(t, said.String())
	r.printed = time.Now().Add(-2 * quiet)
	r.sayRunning()
	assert.Contains(t, said.String(), "compiling")
	said.Reset()
	require.NoError(t, r.Event(testjson.TestEvent{Action: testjson.ActionRun, Package: module + "/pool", Test: "TestLong"}, nil))
	require.NoError(t, r.Event(testjson.TestEvent{Action: testjson.ActionRun, Package: module + "/pool", Test: "TestLong/part"}, nil))
	require.NoError(t, r.Event(testjson.TestEvent{Action: testjson.ActionRun, Package: module + "/pool", Test: "TestWaits"}, nil))
	require.NoError(t, r.Event(testjson.TestEvent{Action: testjson.ActionPause, Package: module + "/pool", Test: "TestWaits"}, nil))
	r.printed = time.Now().Add(-2 * quiet)
	r.sayRunning()
	assert.Regexp(t, `\(1 test running, for .*: pool\.TestLong\)`, said.String())
}

func TestWithoutDockerItSaysWhatIsNotTested(t *testing.T) {
	var said bytes.Buffer
	t.Setenv(late.Variable, "")
	announce(&said, settings{}, "")
	assert.Contains(t, said.String(), "Docker: no engine answers. The tests on real servers are NOT run.")
	assert.Contains(t, said.String(), "Time: ")
	commands, err := plan(settings{only: "servers"}, "")
	require.NoError(t, err)
	require.Empty(t, commands)
	said.Reset()
	announce(&said, settings{only: "servers", flags: []string{"-race=true", "-race=false"}}, "")
	assert.Contains(t, said.String(), "Tests: none.\n")
	assert.NotContains(t, said.String(), "Time: ")
	assert.Contains(t, said.String(), "Race detector: off, because")
	said.Reset()
	announce(&said, settings{flags: []string{"-race=true"}}, "26.1")
	assert.Contains(t, said.String(), "Docker: engine 26.1.")
	assert.NotContains(t, said.String(), "Race detector")
}

func TestWhyTheRaceDetectorIsOff(t *testing.T) {
	t.Setenv("GOFLAGS", "")
	t.Setenv("CC", "sh -x")
	assert.Equal(t, "a flag says so", raceOff([]string{"-race=false"}))
	assert.Equal(t, "no flag asks for it", raceOff(nil))
	assert.Empty(t, raceOff([]string{"-race"}))
	t.Setenv("CC", "no-such-compiler")
	assert.Equal(t, "there is no C compiler, no-such-compiler", raceOff([]string{"-race=false"}))
	t.Setenv("GOFLAGS", "-race")
	assert.Empty(t, raceOff(nil))
}

func TestFlagsThatSelectTestsRunThemWithoutLanes(t *testing.T) {
	build, test, known := forBinary([]string{"-race=true", "-short", "-count=1", "-v", "-vet=off"})
	require.True(t, known)
	assert.Equal(t, []string{"-race=true", "-vet=off"}, build)
	assert.Equal(t, []string{"-test.short", "-test.count=1"}, test)
	assert.True(t, selects([]string{"-run=X"}))
	assert.True(t, selects([]string{"-run", "X"}))
	assert.False(t, selects([]string{"-race=false"}))
}

func TestCommandsRunSideBySideAndTheirLinesStayWhole(t *testing.T) {
	var out bytes.Buffer
	echo := command{what: "echo", dir: ".", argv: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do printf one; printf 'two\\n'; done; printf end"}}
	bad := command{what: "it", dir: ".", argv: []string{"sh", "-c", "exit 3"}}
	err := together(t.Context(), []command{bad, echo, echo}, &lines{to: &out})
	require.ErrorIs(t, err, errReported)
	assert.Contains(t, out.String(), "it: exit status 3")
	said := strings.SplitAfter(out.String(), "\n")
	out.Reset()
	for _, line := range said {
		if !strings.HasPrefix(line, "{") {
			out.WriteString(line)
		}
	}
	assert.Equal(t, strings.Repeat("onetwo\n", 9), strings.ReplaceAll(out.String(), "end\n", "")[:63])
	assert.Equal(t, 2, strings.Count(out.String(), "end\n"))
	assert.Equal(t, 18, strings.Count(out.String(), "onetwo\n"))
}

// A signal ends the binaries that go has started, too.
func TestWhatACommandHasStartedEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := filepath.Join(t.TempDir(), "ended")
	child := "trap 'touch " + ended + "; exit' TERM; echo ready; while :; do sleep 0.01; done"
	ready := &whenWritten{to: io.Discard, do: cancel}
	err := command{what: "it", dir: ".", argv: []string{"sh", "-c", "sh -c \"$1\" & trap 'wait' TERM; wait", "sh", child}}.run(ctx, &lines{to: ready})
	require.Error(t, err)
	_, err = os.Stat(ended)
	require.NoError(t, err)
	require.ErrorIs(t, command{}.run(ctx, nil), context.Canceled, "nothing is started any more")
}

type whenWritten struct {
	to io.Writer
	do func()
}

func (w *whenWritten) Write(p []byte) (int, error) {
	w.do()
	return w.to.Write(p)
}

func TestLanesTakeAboutTheSameTime(t *testing.T) {
	took := times{"long": 10 * time.Second, "half": 5 * time.Second, "also half": 5 * time.Second}
	names := []string{"short", "half", "long", "also half", "new"}
	lanes := distribute(names, 3, took)
	require.Equal(t, [][]string{{"long"}, {"half", "short"}, {"also half", "new"}}, lanes)
	require.Equal(t, []string{"short", "half", "long", "also half", "new"}, names, "the list itself stays")
	require.Equal(t, []string{"long", "half", "also half", "short", "new"}, took.longestFirst(names))
	require.NotEmpty(t, tookBefore())
}
