//go:build unix && !aix && !solaris

package main

import (
	"bufio"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// The tests here run the real binary, because what they are about is what becomes of processes.

// binary has longer timeouts than the command of users, because a busy machine may stop a process for
// seconds. userBinary is the command of users, for tests that wait for its timeouts.
var (
	binary     = sync.OnceValues(func() (string, error) { return build("redlock", "-tags=redlock_long_timeouts") })
	userBinary = sync.OnceValues(func() (string, error) { return build("user/redlock") })
)

func build(name string, flags ...string) (path string, err error) {
	path = filepath.Join(buildDir, name)
	words := append([]string{"build", "-ldflags=-s -w", "-o", path}, flags...)
	out, err := exec.Command("go", append(words, ".")...).CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
}

var buildDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		waitSideBySide()
		takeDefaults()
		cli.Lengthen()
		var err error
		if buildDir, err = os.MkdirTemp("", "redlock"); err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(buildDir) }()
		return m.Run()
	}())
}

// waitSideBySide runs more tests at a time than there are processors, unless -parallel says how many:
// most tests wait for timeouts and processes.
func waitSideBySide() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
}

// takeDefaults has the processes that tests start end by the signals that end programs, also where
// this one was started with some of them ignored, as by nohup or in the background of a script. A
// program inherits what is ignored, and not what is handled.
func takeDefaults() {
	handled := make(chan os.Signal, 1)
	for _, s := range cli.EndSignals {
		if signal.Ignored(s) {
			signal.Notify(handled, s)
		}
	}
}

// redlockProcess is a running redlock, in a session of its own.
type redlockProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File // ends when redlock and all that inherited its output are gone
	lines *bufio.Reader
	err   *os.File
	said  *bufio.Reader
}

// start runs redlock with those nodes and words.
func start(t *testing.T, all []*fakeredis.Master, args ...string) *redlockProcess {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	return startProgram(t, all, path, args...)
}

// startAsUser runs the redlock of users.
func startAsUser(t *testing.T, all []*fakeredis.Master, args ...string) *redlockProcess {
	t.Helper()
	path, err := userBinary()
	require.NoError(t, err)
	return startProgram(t, all, path, args...)
}

func startProgram(t *testing.T, all []*fakeredis.Master, path string, args ...string) *redlockProcess {
	t.Helper()
	return startWith(t, all, &syscall.SysProcAttr{Setsid: true}, path, args...)
}

func startWith(t *testing.T, all []*fakeredis.Master, attr *syscall.SysProcAttr, path string, args ...string) *redlockProcess {
	t.Helper()
	p := &redlockProcess{t: t, cmd: exec.Command(path, args...)}
	p.cmd.Env = append(os.Environ(), "REDLOCK_NODES="+nodesOf(all))
	p.cmd.SysProcAttr = attr
	var stdin, stdout, stderr *os.File
	stdin, p.in = pipe(t)
	p.out, stdout = pipe(t)
	p.err, stderr = pipe(t)
	p.lines, p.said = bufio.NewReader(p.out), bufio.NewReader(p.err)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
	require.NoError(t, p.cmd.Start())
	for _, f := range []*os.File{stdin, stdout, stderr} {
		require.NoError(t, f.Close())
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil { // the test has failed
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// line is the command's next line.
func (p *redlockProcess) line() string {
	p.t.Helper()
	s, err := p.lineOrEnd()
	if err != nil {
		p.t.Fatalf("%v; standard error: %s", err, p.messagesSoFar())
	}
	return s
}

// lineOrEnd is the command's next line, or an error if it ended instead.
func (p *redlockProcess) lineOrEnd() (string, error) {
	p.t.Helper()
	require.NoError(p.t, p.out.SetReadDeadline(time.Now().Add(patience)))
	s, err := p.lines.ReadString('\n')
	return strings.TrimSpace(s), err
}

// until skips the command's lines up to that one.
func (p *redlockProcess) until(line string) {
	p.t.Helper()
	for got := ""; got != line; { // bounded by line, which fails when nothing comes
		got = p.line()
	}
}

// message is redlock's next line on standard error.
func (p *redlockProcess) message() string {
	p.t.Helper()
	require.NoError(p.t, p.err.SetReadDeadline(time.Now().Add(patience)))
	s, err := p.said.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSpace(s)
}

// afterTheWait is redlock's next message that is not about a wait: on a busy machine the first attempt, which connects,
// may miss the node timeout. A shell that is told to end may say so before.
func (p *redlockProcess) afterTheWait() string {
	p.t.Helper()
	for { // bounded by message
		if m := p.message(); strings.HasPrefix(m, "redlock: ") && !strings.Contains(m, "waiting up to ") {
			return m
		}
	}
}

// messages returns the messages that are left. It waits until redlock and all that inherited
// its standard error are gone.
func (p *redlockProcess) messages() string {
	p.t.Helper()
	require.NoError(p.t, p.err.SetReadDeadline(time.Now().Add(patience)))
	all, err := io.ReadAll(p.said)
	require.NoError(p.t, err, "standard error is still open")
	return string(all)
}

// messagesSoFar returns what a test that has failed can still read.
func (p *redlockProcess) messagesSoFar() string {
	_ = p.err.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	all, _ := io.ReadAll(p.said)
	return string(all)
}

// gone waits until redlock, the command and whatever it has started are gone, and
// returns what they had still printed.
func (p *redlockProcess) gone() string {
	p.t.Helper()
	require.NoError(p.t, p.out.SetReadDeadline(time.Now().Add(patience)))
	rest, err := io.ReadAll(p.lines)
	require.NoError(p.t, err, "something lives on")
	return string(rest)
}

// status waits for redlock's end.
func (p *redlockProcess) status() int {
	p.t.Helper()
	end := make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(end)
	}()
	select {
	case <-end:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-end
		p.t.Fatalf("redlock does not end; standard error: %s", p.messagesSoFar())
	}
	ws, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return cli.ExitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (p *redlockProcess) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// say gives the command a line.
func (p *redlockProcess) say(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err)
}

// make gives the jobs that it starts such descriptors.
func TestTheCommandInheritsTheDescriptorsThatRedlockWasGiven(t *testing.T) {
	t.Parallel()
	path, err := binary()
	require.NoError(t, err)
	p := startProgram(t, masters(t), "sh", "-c", `exec 3<"$0" 4<"$0"; exec "$1" run job -- sh -c 'cat <&3; cat <&4'`, fileWith(t, "given\n"), path)
	require.Equal(t, "given", p.line())
	require.Equal(t, "given", p.line())
	require.Zero(t, p.status())
}
