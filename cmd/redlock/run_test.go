//go:build unix && !aix && !solaris

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestACommandRunsWhileTheNameIsHeldAndKnowsItsToken(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--export-token", "--owner", "tester", "job/1", "--", "sh", "-c", `echo "$REDLOCK_NAME $REDLOCK_TOKEN"; read x; echo "$x"`)
	seen := p.line()
	heldEverywhere(t, all, "job/1")
	for _, m := range all {
		token, _ := m.Get("job/1")
		require.Equal(t, "job/1 "+token, seen)
	}
	require.Contains(t, seen, "tester:")
	p.say("it has our input")
	require.Equal(t, "it has our input", p.line())
	require.Equal(t, 0, p.status())
	require.Empty(t, p.gone())
	require.Empty(t, p.messages())
}

func TestAHeldNameIsExtendedAsLongAsTheCommandRuns(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "12s", "--grace", "0", "job", "--", "sh", "-c", "echo go; read x")
	p.line()
	eventually(t, "the lock is extended", func() bool { return all[0].Commands()["EVALSHA"] >= 5 }) // of which one took it
	_, ok := all[0].Get("job")                                                                      // four thirds of its time have passed
	require.True(t, ok)
	p.say("")
	require.Equal(t, 0, p.status())
}

func TestTheStatusIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	all := masters(t)
	file := filepath.Join(t.TempDir(), "not-a-program")
	require.NoError(t, os.WriteFile(file, []byte("\x7fELF no"), 0o755))
	for script, want := range map[string]int{
		"exit 0":          0,
		"exit 3":          3,
		"exit 255":        255,
		"kill -KILL $$":   128 + int(syscall.SIGKILL),
		"kill -TERM $$":   128 + int(syscall.SIGTERM),
		"kill -USR1 $$":   128 + int(syscall.SIGUSR1),
		"kill -TERM 0":    128 + int(syscall.SIGTERM), // the command's group, not ours
		"exec " + file:    126,
		"/no/such/file":   127,
		"no-such-command": 127,
	} {
		p := start(t, all, "run", "job", "--", "sh", "-c", script+" 2>/dev/null")
		require.Equal(t, want, p.status(), script)
		require.Empty(t, p.gone(), script)
	}
}

func TestACommandThatCantRunIsRefusedBeforeTheLockIsTaken(t *testing.T) {
	t.Parallel()
	all := masters(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o644))
	for command, want := range map[string]int{"no-such-command": 127, dir + "/none": 127, plain: 126, dir: 126, "": 127} {
		p := start(t, all, "run", "job", "--", command)
		require.Equal(t, want, p.status(), command)
		require.Contains(t, p.message(), "redlock: ", command)
		require.Empty(t, p.gone())
	}
	allAnswered(t, all...)
	for _, m := range all {
		require.Empty(t, m.Commands())
	}
}

func TestACommandThatTurnsOutNotToBeExecutableIs126(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(file, []byte("\x7fELF no"), 0o755))
	p := start(t, masters(t), "run", "job", "--", file)
	require.Equal(t, 126, p.status())
	require.Contains(t, p.message(), "can't be executed")
	require.Empty(t, p.gone())
}

func TestANameThatIsHeldElsewhereIs75(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"0", "50ms"} {
		all := masters(t)
		for _, m := range all {
			m.Set("job", "other:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
		}
		p := start(t, all, "run", "--wait", wait, "job", "--", "echo", "never")
		status, messages := p.status(), p.messages()
		require.Equal(t, 75, status, messages)
		require.Contains(t, messages, `held by "other"`)
		require.Empty(t, p.gone())
		for _, m := range all {
			m.Del("job")
		}
	}
}

func TestAKeyThatIsNoLockIsNotTakenForAHolder(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for _, m := range all {
		m.PushList("job")
	}
	p := start(t, all, "run", "job", "--", "echo", "never")
	require.Equal(t, cli.ExitForeign, p.status())
	require.Empty(t, p.gone())
	for _, m := range all {
		m.Del("job")
	}
}

// Two of three nodes do not answer, the third refuses: that is a fault and not somebody who holds the
// name, and a monitor that ignores 75 has to notice it.
func TestARefusalWithoutAQuorumIs69(t *testing.T) {
	t.Parallel()
	for what, silence := range map[string]func(*fakeredis.Master){"stopped": (*fakeredis.Master).Stop, "frozen": (*fakeredis.Master).Freeze} {
		for _, wait := range []string{"0", "100ms"} {
			all := masters(t)
			all[2].Set("job", "other:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
			silence(all[0])
			silence(all[1])
			p := startAsUser(t, all, "run", "--wait", wait, "job", "--", "echo", "never")
			status, messages := p.status(), p.messages()
			require.Equal(t, 69, status, "%s, --wait %s: %s", what, wait, messages)
			require.Contains(t, messages, "no quorum")
			require.Empty(t, p.gone())
			all[2].Del("job")
			all[0].Stop() // what a frozen node has not read is not waited for
			all[1].Stop()
		}
	}
}

func TestNoQuorumIs69(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"0", "100ms"} {
		all := masters(t)
		all[0].Stop()
		all[1].Stop()
		p := start(t, all, "run", "--wait", wait, "job", "--", "echo", "never")
		require.Equal(t, 69, p.status())
		require.Empty(t, p.gone())
		require.Contains(t, p.messages(), "no quorum")
	}
}

func TestASecondRunWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	all := masters(t)
	written := filepath.Join(t.TempDir(), "written")
	first := start(t, all, "run", "--owner", "one", "job", "--", "sh", "-c", `echo one; read x; echo one ends >>"$0"`, written)
	require.Equal(t, "one", first.line())
	second := start(t, all, "run", "--owner", "two", "job", "--", "sh", "-c", `echo two begins >>"$0"`, written)
	require.Contains(t, second.message(), `waiting up to 1m0s for job: held by "one"`)
	first.say("")
	require.Equal(t, 0, second.status())
	require.Equal(t, 0, first.status())
	order, err := os.ReadFile(written)
	require.NoError(t, err)
	require.Equal(t, "one ends\ntwo begins\n", string(order))
}

func TestALostReaderOfTheMessagesEndsNothing(t *testing.T) {
	t.Parallel()
	all := masters(t)
	first := start(t, all, "run", "job", "--", "sh", "-c", "echo one; read x")
	require.Equal(t, "one", first.line())
	second := start(t, all, "run", "job", "--", "echo", "two")
	require.NoError(t, second.err.Close()) // before it says that it waits, or after
	first.say("")
	require.Equal(t, 0, first.status())
	require.Equal(t, "two", second.line())
	require.Equal(t, 0, second.status())
}

func TestAFrozenNodeDelaysNeitherTheWorkNorItsEnd(t *testing.T) {
	t.Parallel()
	all := masters(t)
	attempts(t, func() (wrong string) {
		p := startAsUser(t, all, "run", "job", "--", "sh", "-c", "echo ready; read x")
		require.Equal(t, "ready", p.line())
		heldEverywhere(t, all, "job")
		all[2].Freeze()
		began := time.Now()
		p.say("")
		require.Equal(t, 0, p.status())
		if took := time.Since(began); took > 3*time.Second { // cli.CloseTimeout is 1 s
			wrong = "the end took " + took.String()
		}
		all[2].Unfreeze() // and executes what it had been sent
		eventually(t, "the release arrives", func() bool { return len(locks(all[2])) == 0 })
		return wrong
	})
}

func TestASignalEndsTheWaitAndNothingIsRun(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for _, m := range all {
		m.Set("job", "other", time.Hour)
	}
	p := start(t, all, "run", "job", "--", "echo", "never")
	p.message() // it waits
	p.signal(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), p.status())
	require.Empty(t, p.gone())
	for _, m := range all {
		m.Del("job")
	}
}

func TestSignalsReachTheWholeGroupOfTheCommand(t *testing.T) {
	t.Parallel()
	const script = `
for s in HUP INT QUIT TERM USR1 USR2 WINCH; do trap "echo child $s" $s; done
sh -c 'for s in HUP TERM USR1 USR2 WINCH; do trap "echo grandchild $s" $s; done
       echo ready; while [ ! -e "$0" ]; do sleep 0.02; done' "$0" &
while [ ! -e "$0" ]; do sleep 0.02; done
wait; exit 9`
	stop := filepath.Join(t.TempDir(), "stop")
	p := start(t, masters(t), "run", "job", "--", "sh", "-c", script, stop)
	require.Equal(t, "ready", p.line())
	for _, s := range append(append([]syscall.Signal{}, cli.EndSignals...), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH) {
		p.signal(s)
		name := signalNames[s]
		if s == syscall.SIGINT || s == syscall.SIGQUIT { // a shell has them ignored by what it starts with &
			require.Equal(t, "child "+name, p.line())
			continue
		}
		require.ElementsMatch(t, []string{"child " + name, "grandchild " + name}, []string{p.line(), p.line()})
	}
	require.NoError(t, os.WriteFile(stop, nil, 0o600))
	require.Equal(t, 9, p.status())
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGTERM: "TERM",
	syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2", syscall.SIGWINCH: "WINCH",
}

func TestTheCommandLeadsAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "job", "--", "sh", "-c", "echo $$; read x")
	pid, err := strconv.Atoi(p.line())
	require.NoError(t, err)
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group)
	require.NotEqual(t, p.cmd.Process.Pid, group)
	p.say("")
	require.Equal(t, 0, p.status())
}

func TestAStoppedCommandKeepsItsLockAndContinues(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "12s", "--grace", "0", "job", "--", "sh", "-c", "echo $$; read x")
	pid, err := strconv.Atoi(p.line())
	require.NoError(t, err)
	p.signal(syscall.SIGTSTP)
	eventually(t, "the command stops", func() bool { return processState(t, pid) == "T" })
	before := all[0].Commands()["EVALSHA"]
	eventually(t, "the lock is extended", func() bool { return all[0].Commands()["EVALSHA"] >= before+3 })
	p.signal(syscall.SIGCONT)
	eventually(t, "the command goes on", func() bool { return processState(t, pid) != "T" })
	p.say("")
	require.Equal(t, 0, p.status())
}

func TestWhatTheCommandLeavesBehindEndsWithTheLock(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "job", "--", "sh", "-c", "sleep 100 & exit 4")
	require.Equal(t, 4, p.status())
	require.Empty(t, p.gone())
	p = start(t, masters(t), "run", "--grace", "300ms", "job", "--", "sh", "-c",
		`sh -c 'trap "" TERM; echo ready; for i in 1 2 3 4 5 6 7 8 9; do sleep 5; done' & read x; exit 5`)
	require.Equal(t, "ready", p.line())
	p.say("")
	require.Equal(t, 5, p.status())
	require.Empty(t, p.gone())
	require.Contains(t, p.messages(), "left processes behind")
}

func TestWhatHasLittleToFinishMayFinishIt(t *testing.T) {
	t.Parallel()
	attempts(t, func() string {
		p := start(t, masters(t), "run", "job", "--", "sh", "-c", `(sleep 0.3; echo finished) & exit 0`)
		require.Equal(t, 0, p.status())
		if printed, messages := p.gone(), p.messages(); printed != "finished\n" || messages != "" {
			return "it printed " + strconv.Quote(printed) + ", and redlock: " + messages
		}
		return ""
	})
}

func TestWhatWasIgnoredAtTheStartStaysIgnored(t *testing.T) {
	t.Parallel()
	path, err := binary()
	require.NoError(t, err)
	p := startProgram(t, masters(t), "sh", "-c", `trap "" HUP; exec "$0" "$@"`, path,
		"run", "job", "--", "sh", "-c", "kill -HUP $$; echo alive; read x; echo on")
	require.Equal(t, "alive", p.line())
	p.signal(syscall.SIGHUP)
	p.say("")
	require.Equal(t, "on", p.line())
	require.Equal(t, 0, p.status())
}

// processState is the letter that ps shows; "" for a process that is gone.
func processState(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		if _, err := os.Stat("/proc/self/stat"); err != nil {
			t.Skip("there is no /proc")
		}
		return ""
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	return fields[:min(1, len(fields))]
}
