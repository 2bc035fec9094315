package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gotest.tools/gotestsum/testjson"
)

// played is the report of commands that print the given lines.
func played(t *testing.T, printed ...string) (*report, string) {
	t.Helper()
	var said bytes.Buffer
	r := newReport(&said, []string{"-race=true"})
	_, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: strings.NewReader(strings.Join(printed, "\n")), Handler: r, IgnoreNonJSONOutputLines: true})
	require.NoError(t, err)
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
	assert.Regexp(t, `ok    pool +1 tests, 2\.0 s`, said)
	assert.Regexp(t, `ok    integration, lane 2 +1 tests, 60\.0 s`, said)
	assert.Regexp(t, `\n2 tests passed, 0 failed, 0 skipped in 0:00\n$`, said)
}

func TestAFailureStopsNothingAndIsToldAtTheEndWithTheCommandThatRepeatsIt(t *testing.T) {
	r, said := played(t, badOutput, badTest, badPackage, okLane, okLaneEnd)
	require.Error(t, r.failure())
	assert.Contains(t, said, "FAIL  pool.TestBad, 1.5 s\n")
	assert.Regexp(t, `FAIL  pool +1 tests, 1 failed, 2\.0 s`, said)
	assert.Contains(t, said, "=== FAILED: pool.TestBad (1.5 s)\n    x_test.go:1: it broke\nrepeat it: go test -count=1 -race=true -run '^TestBad$' ./pool\n")
	assert.Regexp(t, `\n1 tests passed, 1 failed, 0 skipped in 0:00\n$`, said)
}

func TestAPackageThatCrashesFails(t *testing.T) {
	r, said := played(t, okTest, crash, crashed)
	require.Error(t, r.failure())
	assert.Contains(t, said, "=== FAILED: package clock\npanic: oh\nrepeat it: go test -count=1 -race=true ./clock\n")
}

func TestACommandThatFailsWithoutAFailedTestIsAFailure(t *testing.T) {
	r, _ := played(t, okTest)
	require.NoError(t, r.failure())
	r.err = errors.New("no")
	require.Error(t, r.failure())
}

func TestTheReasonOfASkippedTestIsSaidAndTheLateModeCountsItsOwn(t *testing.T) {
	r, said := played(t, skipOutput, skipOutput2, skipTest)
	assert.Contains(t, said, "=== skipped\nclock.TestSkip: late: left out: it measures times\n")
	assert.Equal(t, 1, r.leftOut())
	assert.Equal(t, count{skipped: 1}, r.total())
}

func TestTheCommandThatRepeatsATestFitsItsModule(t *testing.T) {
	for pkg, want := range map[string]string{
		module + "/redlock":             "REDLOCK_TEST_LATE=7 go test -count=1 -run '^TestX$' ./redlock",
		module + "/integration#3":       "REDLOCK_TEST_LATE=7 scripts/integration --with go test -count=1 -run '^TestX$' ./integration",
		module + "/integration/sim":     "REDLOCK_TEST_LATE=7 scripts/integration --with go test -count=1 -run '^TestX$' ./integration/sim",
		module + "/contrib/otelredlock": "REDLOCK_TEST_LATE=7 GOWORK=off go -C contrib/otelredlock test -count=1 -run '^TestX$' ./",
	} {
		assert.Equal(t, want, repeat(pkg, "TestX", "REDLOCK_TEST_LATE=7", []string{"-count=1"}))
	}
}

func TestSilenceIsEndedByALineThatSaysWhatRuns(t *testing.T) {
	var said bytes.Buffer
	r := newReport(&said, nil)
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
	assert.Regexp(t, `\(1 tests run, for .*: pool\.TestLong\)`, said.String())
}

func TestWithoutDockerItSaysWhatIsNotTested(t *testing.T) {
	var said bytes.Buffer
	announce(&said, settings{}, "")
	assert.Contains(t, said.String(), "Docker: no engine answers. The tests on real servers are NOT run.")
	chains, err := plan(settings{}, "")
	require.NoError(t, err)
	require.Len(t, chains, 1)
	said.Reset()
	announce(&said, settings{flags: []string{"-race=false"}}, "26.1")
	assert.Contains(t, said.String(), "Docker: engine 26.1.")
	assert.Contains(t, said.String(), "no C compiler")
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
	err := runChains(t.Context(), []chain{{bad, echo}, {echo}}, &lines{to: &out})
	require.ErrorContains(t, err, "it: exit status 3")
	assert.Equal(t, strings.Repeat("onetwo\n", 9), strings.ReplaceAll(out.String(), "end\n", "")[:63])
	assert.Equal(t, 2, strings.Count(out.String(), "end\n"))
	assert.Equal(t, 18, strings.Count(out.String(), "onetwo\n"))
}

// A signal ends the binaries that go has started, too.
func TestWhatACommandHasStartedEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := filepath.Join(t.TempDir(), "ended")
	child := "trap 'touch " + ended + "; exit' TERM; echo ready; while :; do sleep 0.01; done"
	ready := &whenWritten{do: cancel}
	err := command{what: "it", dir: ".", argv: []string{"sh", "-c", "sh -c \"$1\" & trap 'wait' TERM; wait", "sh", child}}.run(ctx, &lines{to: ready})
	require.Error(t, err)
	_, err = os.Stat(ended)
	require.NoError(t, err)
	require.ErrorIs(t, command{}.run(ctx, nil), context.Canceled, "nothing is started any more")
}

type whenWritten struct{ do func() }

func (w *whenWritten) Write(p []byte) (int, error) {
	w.do()
	return len(p), nil
}

func TestLanesTakeAboutTheSameTime(t *testing.T) {
	took := map[string]time.Duration{"long": 10 * time.Second, "half": 5 * time.Second, "also half": 5 * time.Second}
	names := []string{"short", "half", "long", "also half", "new"}
	lanes := distribute(names, 3, took)
	require.Equal(t, [][]string{{"long"}, {"half", "short"}, {"also half", "new"}}, lanes)
	require.Equal(t, []string{"short", "half", "long", "also half", "new"}, names, "the list itself stays")
	require.NotEmpty(t, tookBefore())
}
