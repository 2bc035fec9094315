//go:build unix && !aix && !solaris

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// stubborn is a command that ignores what can be ignored, and so does its own child.
// Both print the time, again and again, in nanoseconds. Only a failed test lets them
// come to their own end.
func stubborn(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("date does not print nanoseconds everywhere")
	}
	return `
trap "" HUP INT QUIT TERM USR1 USR2
stamp() { i=0; while [ $i -lt 2000 ]; do i=$((i+1)); date +%s%N; sleep 0.01; done; }
stamp &
echo ready
stamp`
}

// lastStamp is the latest time that stubborn printed.
func lastStamp(t *testing.T, printed string) time.Time {
	t.Helper()
	last := int64(0)
	for s := bufio.NewScanner(strings.NewReader(printed)); s.Scan(); {
		ns, err := strconv.ParseInt(s.Text(), 10, 64)
		if err != nil {
			continue // "ready", or a line that a kill has cut
		}
		last = max(last, ns)
	}
	require.NotZero(t, last)
	return time.Unix(0, last)
}

func TestALockThatIsLostIs74AlsoWhenTheCommandThenSucceeds(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "12s", "--grace", "6s", "job", "--", "sh", "-c",
		`trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	require.Equal(t, "ready", p.line())
	lose(all)
	require.Equal(t, "told", p.line())
	require.Equal(t, 74, p.status())
	require.Regexp(t, "job is lost, and sh has .* to end: [23] of 3 nodes no longer hold it .*another client may have held it for up to ", p.afterTheWait())
	require.Empty(t, p.gone())
	require.Regexp(t, "redlock: sh has ended: another client may have held job for up to .* until then\n$", p.messages())
}

// The votes do not show that the nodes lost the lock, and so its validity may not be over when the command ends.
func TestALossWithoutAQuorumHasABoundWhenTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "12s", "--grace", "6s", "job", "--", "sh", "-c",
		`trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	require.Equal(t, "ready", p.line())
	for _, m := range all[:2] {
		m.Stop()
	}
	require.Equal(t, "told", p.line())
	require.Equal(t, 74, p.status())
	require.Regexp(t, "job can't be extended, and sh has .* to end: no quorum has confirmed it since ", p.afterTheWait())
	require.Empty(t, p.gone())
	require.Regexp(t, "redlock: sh has ended: another client may have held job for up to .* until then\n$", p.messages())
	for _, m := range all[:2] {
		require.NoError(t, m.Restart(false)) // without the key, which could not be released
	}
}

func TestALossThatOnlyTheReleaseFindsIs74(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "10m", "job", "--", "sh", "-c", "echo ready; read x") // no extension may find it
	require.Equal(t, "ready", p.line())
	lose(all)
	p.say("")
	require.Equal(t, 74, p.status())
	require.Regexp(t, "job was lost while the command ran: [23] of 3 nodes no longer hold it", p.message())
	require.NotContains(t, p.messages(), "redlock: ", "it is said once")
}

// lose makes a lock vanish as a flush does. The third node may not have been asked
// for its grant when the command begins.
func lose(all []*fakeredis.Master) {
	for _, m := range all {
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd == "EVALSHA" || cmd == "EVAL" {
				m.FlushAll()
			}
			return "", false
		})
		m.FlushAll()
	}
}

func TestACommandThatIgnoresSIGTERMIsKilledWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	all := masters(t)
	const ttl = 12 * time.Second // of which the loss takes a third, and the kill the grace
	p := start(t, all, "run", "--ttl", ttl.String(), "--grace", "200ms", "job", "--", "sh", "-c", stubborn(t))
	p.until("ready")
	stamp := p.line()
	lost := time.Now()
	lose(all)
	require.Equal(t, 74, p.status())
	require.Regexp(t, `job is lost, and sh has (\d\d?|1\d\d|200)ms to end: `, p.afterTheWait())
	require.True(t, lastStamp(t, stamp+"\n"+p.gone()).Before(lost.Add(ttl)))
	require.Equal(t, 1, strings.Count(p.messages(), "redlock: "), "the overlap, and the loss not again although the command was killed and left its child")
}

// A loss is said once, although what the command leaves behind ends with the grace.
func TestALossIsSaidOnceAlthoughTheCommandLeavesAProcessBehind(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "12s", "--grace", "200ms", "job", "--", "sh", "-c", `(trap "" TERM; echo ready; while :; do sleep 0.02; done) & wait`)
	require.Equal(t, "ready", p.line())
	lose(all)
	require.Equal(t, 74, p.status())
	require.Regexp(t, `job is lost, and sh has (\d\d?|1\d\d|200)ms to end: `, p.afterTheWait())
	require.Empty(t, p.gone())
	require.Equal(t, 1, strings.Count(p.messages(), "redlock: "), "the overlap")
}

// docs/dev/hazards.md H106: no write of the command after the end of the validity.
func TestACommandEndsBeforeTheValidityOfALockThatIsNotExtended(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	attempts(t, func() (wrong string) { // if the machine stalls when the time runs out, the kill is late
		all := masters(t)
		began := time.Now()
		p := startAsUser(t, all, "run", "--ttl", ttl.String(), "job", "--", "sh", "-c", stubborn(t))
		var lines []string
		for range 3 { // "ready", and stamps
			line, err := p.lineOrEnd()
			if err != nil {
				require.Equal(t, 74, p.status())
				require.Greater(t, time.Since(began), ttl/2, "without a reason the lock is not lost")
				return "it was lost before the command began"
			}
			lines = append(lines, line)
		}
		for _, m := range all {
			m.Freeze()
		}
		frozen := time.Now() // no extension that took effect was sent later than now
		require.Equal(t, 74, p.status())
		message := p.afterTheWait()
		late := lastStamp(t, strings.Join(append(lines, p.gone()), "\n")).Sub(frozen.Add(ttl))
		for _, m := range all {
			m.Unfreeze()
		}
		eventually(t, "the keys expire", func() bool { return len(locks(all...)) == 0 })
		switch {
		case strings.Contains(message, "job is lost"), strings.Contains(message, "sh is killed"):
			return message
		case late >= 0:
			return "it wrote " + late.String() + " too late"
		}
		require.Contains(t, message, "job can't be extended, and sh has ")
		require.Contains(t, message, "no quorum has confirmed it since ")
		return ""
	})
}

// docs/dev/hazards.md H106: redlock is killed, and its child and grandchild die with it.
func TestTheCommandAndItsChildrenDieWithRedlock(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := start(t, all, "run", "--ttl", "12s", "--grace", "0", "job", "--", "sh", "-c", stubborn(t))
	p.until("ready")
	reaper := reaperOf(t, p.cmd.Process.Pid)
	// What ends programs in passing does not end the reaper, nor what ends redlock's group.
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE} {
		require.NoError(t, syscall.Kill(reaper, s))
	}
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL))
	p.gone()
	require.Equal(t, 128+int(syscall.SIGKILL), p.status())
	eventually(t, "the reaper ends", func() bool { return strings.Trim(processState(t, reaper), "Z") == "" })
	eventually(t, "the keys expire", func() bool { return len(locks(all...)) == 0 })
}

// docs/dev/hazards.md H106: nobody has seen the loss, because redlock itself does not run.
func TestTheCommandOfARedlockThatIsStoppedEndsBeforeTheNextOneBegins(t *testing.T) {
	t.Parallel()
	attempts(t, func() (wrong string) { // if the machine stalls when the time runs out, the kill is late
		all := masters(t)
		output := filepath.Join(t.TempDir(), "output")
		const ttl = 4 * time.Second
		started := time.Now()
		first := start(t, all, "run", "--ttl", ttl.String(), "job", "--", "sh", "-c", "exec >"+output+"; "+stubborn(t))
		writes := func() bool { s, _ := os.ReadFile(output); return strings.Count(string(s), "\n") > 3 }
		eventually(t, "the first writes or ends", func() bool { return writes() || processState(t, first.cmd.Process.Pid) == "Z" })
		if !writes() {
			require.Equal(t, 74, first.status())
			require.Greater(t, time.Since(started), ttl/2, "without a reason the lock is not lost")
			return "it was lost as the command began"
		}
		first.signal(syscall.SIGSTOP)
		second := start(t, all, "run", "job", "--", "sh", "-c", "date +%s%N; sleep 0.3") // time for the first to write
		began := lastStamp(t, second.line())
		require.Equal(t, 0, second.status())
		printed, err := os.ReadFile(output)
		require.NoError(t, err)
		late := lastStamp(t, string(printed)).Sub(began)
		first.signal(syscall.SIGCONT)
		require.Equal(t, 74, first.status())
		first.gone()
		require.Contains(t, first.messages(), "this process did not run for ")
		if late >= 0 {
			return "the first wrote " + late.String() + " after the second had begun"
		}
		return ""
	})
}

func TestTheKeeperEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	p := start(t, masters(t), "run", "job", "--", "sh", "-c", "echo ready; read x")
	require.Equal(t, "ready", p.line())
	reaper := reaperOf(t, p.cmd.Process.Pid)
	p.say("")
	require.Equal(t, 0, p.status())
	require.Empty(t, processState(t, reaper))
}

func TestTheStartBarrierStaysClosedWhenRedlockDiesBeforeTheCommandBegins(t *testing.T) {
	t.Parallel()
	path, err := binary()
	require.NoError(t, err)
	inner, outer := pipe(t)
	cmd := exec.Command(path, process.StartBarrierMode, "3", "/bin/sh", "sh", "-c", "echo it ran")
	cmd.ExtraFiles = []*os.File{inner}
	var out strings.Builder
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	require.NoError(t, outer.Close()) // as the kernel does for who dies
	require.Error(t, cmd.Wait())
	require.Empty(t, out.String())
}

// reaperOf finds the reaper among a redlock's children.
func reaperOf(t *testing.T, redlock int) int {
	t.Helper()
	for _, pid := range childrenOf(t, redlock) {
		words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(words), process.ReaperMode) {
			return pid
		}
	}
	t.Fatal("there is no reaper")
	return 0
}

// childrenOf lists the children of a process, also those that have ended and were not waited for.
func childrenOf(t *testing.T, parent int) (pids []int) {
	t.Helper()
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		t.Skip("the children of a process can't be listed here")
	}
	// A thread other than the first may have started a child.
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	require.NoError(t, err)
	for _, task := range tasks {
		list, _ := os.ReadFile(task) // the thread may have ended
		for word := range strings.FieldsSeq(string(list)) {
			pid, err := strconv.Atoi(word)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}
