package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// leavesOrphans has 30 processes end whose parents have ended before. Each third has left the group of
// the command. The last one says that its predecessors were left.
const leavesOrphans = `for i in 1 2 3 4 5 6 7 8 9 10; do
  (sleep 0.01 & sleep 0.02 &)
  (setsid sleep 0.01 &)
done
echo left; read x; exit 7`

// onlyItsOwn waits until a redlock has no children but the command and the reaper.
func onlyItsOwn(t *testing.T, redlock int) {
	t.Helper()
	reaper := reaperOf(t, redlock)
	eventually(t, "the orphans are reaped", func() bool { return len(childrenOf(t, redlock)) == 2 })
	require.Contains(t, childrenOf(t, redlock), reaper)
}

func TestOrphansAreReapedWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "job", "--", "sh", "-c", leavesOrphans)
	require.Equal(t, "left", p.line())
	onlyItsOwn(t, p.cmd.Process.Pid)
	p.say("")
	require.Equal(t, 7, p.status())
	require.Empty(t, p.gone())
	require.Empty(t, p.messages())
}

// In a container redlock may be the first process, which has all orphans for children.
func TestOrphansAreReapedByTheFirstProcess(t *testing.T) {
	t.Parallel()
	all := masters(t)
	path, err := binary()
	require.NoError(t, err)
	p := startWith(t, all, &syscall.SysProcAttr{
		Setsid: true, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}, path, "run", "job", "--", "sh", "-c", leavesOrphans)
	require.Equal(t, "left", p.line())
	onlyItsOwn(t, p.cmd.Process.Pid)
	p.say("")
	require.Equal(t, 7, p.status())
	require.Empty(t, p.messages())
}

// Orphans end at the same time as the command.
func TestTheStatusIsNotThatOfAnOrphan(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for range 10 {
		p := start(t, all, "run", "job", "--", "sh", "-c", `for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 3' &); done; exit 7`)
		require.Equal(t, 7, p.status())
		require.Empty(t, p.gone())
	}
}

// The reaper is a child that redlock waits for, too.
func TestAReaperThatIsKilledIsReapedAndTheStatusIsTheCommands(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "job", "--", "sh", "-c", "echo ready; read x; exit 7")
	require.Equal(t, "ready", p.line())
	require.NoError(t, syscall.Kill(reaperOf(t, p.cmd.Process.Pid), syscall.SIGKILL))
	eventually(t, "the reaper is reaped", func() bool { return len(childrenOf(t, p.cmd.Process.Pid)) == 1 })
	p.say("")
	require.Equal(t, 7, p.status())
}

// forks is a command that leaves a process that ignores SIGTERM and is replaced by its own child all
// the time. It says which group it has.
const forks = `trap "" TERM; next() { next & }; next; echo $$; read x; exit 7`

func TestNoProcessIsLeftOfAGroupThatForksWhileItIsKilled(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for what, end := range map[string]struct {
		status int
		begin  func(p *redlockProcess)
	}{
		"the command ends":  {7, func(p *redlockProcess) { p.say("") }},
		"the lock is lost":  {74, func(*redlockProcess) { lose(all) }},
		"redlock is killed": {cli.ExitSignal + int(syscall.SIGKILL), func(p *redlockProcess) { p.signal(syscall.SIGKILL) }},
	} {
		p := start(t, all, "run", "--ttl", "12s", "--grace", "100ms", "job", "--", "sh", "-c", forks)
		group, err := strconv.Atoi(p.line())
		require.NoError(t, err)
		end.begin(p)
		require.Equal(t, end.status, p.status(), what)
		p.gone()
		eventually(t, what+": nothing is left", func() bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) })
		allAnswered(t, all...) // a redlock that was killed may have sent an acquire that is executed late
		for _, m := range all {
			m.Hook(nil)
			m.FlushAll()
		}
	}
}

// `timeout` leaves the group of the command, and a shell does not pass SIGTERM on.
func TestAProcessThatLeftTheGroupEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	all := masters(t)
	const inFront = `timeout 600 sh -c 'trap "" HUP; echo $$; exec sleep 600'`
	for what, end := range map[string]struct {
		command string
		status  int
		begin   func(p *redlockProcess)
	}{
		"the command ends":  {inFront + " & read x; exit 7", 7, func(p *redlockProcess) { p.say("") }},
		"the lock is lost":  {inFront + "; :", 74, func(*redlockProcess) { lose(all) }},
		"redlock gets TERM": {inFront + "; :", cli.ExitSignal + int(syscall.SIGTERM), func(p *redlockProcess) { p.signal(syscall.SIGTERM) }},
	} {
		p := start(t, all, "run", "--ttl", "12s", "--grace", "100ms", "job", "--", "sh", "-c", end.command)
		stray, err := strconv.Atoi(p.line())
		require.NoError(t, err)
		end.begin(p)
		require.Equal(t, end.status, p.status(), what)
		require.ErrorIs(t, syscall.Kill(stray, 0), syscall.ESRCH, what)
		p.gone()
		allAnswered(t, all...)
		for _, m := range all {
			m.Hook(nil)
			m.FlushAll()
		}
	}
}

// A program may take a second SIGTERM for an order to end at once.
func TestWhatTheCommandLeavesGetsSIGTERMOnce(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "12s", "--grace", "6s", "job", "--", "sh", "-c",
		`sh -c 'trap "echo term" TERM; echo ready; while :; do sleep 0.01; done' & wait`)
	require.Equal(t, "ready", p.line())
	lose(all)
	require.Equal(t, 74, p.status())
	require.Equal(t, "term\n", p.gone())
}

// The shell does not pass SIGTERM on, and timeout is its child until the shell has ended.
func TestWhatAppearsWhileOthersEndGetsSIGTERM(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "--ttl", "1m", "--grace", "20s", "job", "--", "sh", "-c", `sh -c '
		timeout 600 sh -c '"'"'trap "echo term; exit" TERM; echo ready; while :; do sleep 0.01; done'"'"'; echo next
	' & read x; exit 7`)
	require.Equal(t, "ready", p.line())
	p.say("")
	require.Equal(t, 7, p.status())
	require.Regexp(t, `^(term\n)+$`, p.gone(), "timeout passes on what it gets")
}

// The kernel may give the id of an empty group to another one, which the reaper would kill.
func TestTheReaperEndsWithTheGroupOfTheCommand(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "--ttl", "2m", "--grace", "1m", "job", "--", "sh", "-c",
		`timeout 600 sh -c 'trap "" TERM HUP; echo $$; while :; do sleep 0.01; done' & read x; exit 7`)
	stray, err := strconv.Atoi(p.line())
	require.NoError(t, err)
	reaper := reaperOf(t, p.cmd.Process.Pid)
	p.say("")
	eventually(t, "the reaper ends", func() bool { return processState(t, reaper) == "" })
	require.NoError(t, syscall.Kill(stray, syscall.SIGKILL), "it has the rest of the grace")
	require.Equal(t, 7, p.status())
}

func TestAStoppedCommandHandlesASignal(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "job", "--", "sh", "-c", "echo go; kill -STOP $$")
	require.Equal(t, "go", p.line())
	eventually(t, "the command is stopped", func() bool {
		for _, child := range childrenOf(t, p.cmd.Process.Pid) {
			if processState(t, child) == "T" {
				return true
			}
		}
		return false
	})
	p.signal(syscall.SIGTERM)
	require.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), p.status())
}

// They may have groups of their own, as timeout has.
func TestTheJobsOfAShellThatBecameRedlockGoOn(t *testing.T) {
	t.Parallel()
	path, err := binary()
	require.NoError(t, err)
	p := startProgram(t, masters(t), "sh", "-c",
		`timeout 600 sh -c 'echo $PPID; exec sleep 600 >/dev/null' 2>/dev/null & read x; exec "$0" run job -- sh -c 'exit 7'`, path)
	job, err := strconv.Atoi(p.line())
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(-job, syscall.SIGKILL) })
	p.say("")
	require.Equal(t, 7, p.status())
	require.NoError(t, syscall.Kill(job, 0))
	require.NotContains(t, p.messages(), "left processes behind")
}
