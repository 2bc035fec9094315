package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// screen is a terminal with a program in the foreground.
type screen struct {
	t    *testing.T
	tty  *os.File // the side on which a person would type
	seen strings.Builder
	cmd  *exec.Cmd
}

// onScreen starts a shell script on a terminal, in a session of its own. In the script
// "$0" is redlock.
func onScreen(t *testing.T, all []*fakeredis.Master, script string) *screen {
	t.Helper()
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	conn, err := tty.SyscallConn()
	require.NoError(t, err)
	number := 0
	require.NoError(t, conn.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}))
	require.NoError(t, err)
	far, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer func() { _ = far.Close() }()
	// Linux signals the programs of a terminal, and then drops their output: also what they wrote because of the signal.
	modes, err := unix.IoctlGetTermios(int(far.Fd()), unix.TCGETS)
	require.NoError(t, err)
	modes.Lflag |= unix.NOFLSH
	require.NoError(t, unix.IoctlSetTermios(int(far.Fd()), unix.TCSETS, modes))
	path, err := binary()
	require.NoError(t, err)
	s := &screen{t: t, tty: tty, cmd: exec.Command("sh", "-c", script, path)}
	s.cmd.Env = append(os.Environ(), "REDLOCK_NODES="+nodesOf(all))
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = far, far, far
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	return s
}

func (s *screen) types(text string) {
	s.t.Helper()
	_, err := s.tty.WriteString(text)
	require.NoError(s.t, err)
}

// shows waits until a text has appeared behind all that was waited for before.
func (s *screen) shows(text string) {
	s.t.Helper()
	require.NoError(s.t, s.tty.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 4096)
	for !strings.Contains(s.seen.String(), text) {
		n, err := s.tty.Read(buf)
		s.seen.Write(buf[:n])
		require.NoError(s.t, err, "waiting for %q, with this on the screen: %q", text, s.seen.String())
	}
	_, rest, _ := strings.Cut(s.seen.String(), text)
	s.seen.Reset()
	s.seen.WriteString(rest)
}

const ctrlC, ctrlZ = "\x03", "\x1a"

func TestOnATerminalTheCommandReadsAndTheShellReadsAfterIt(t *testing.T) {
	t.Parallel()
	s := onScreen(t, masters(t), `"$0" run job -- sh -c 'echo reading; read x; echo "command: <$x>"'; read y; echo "shell: <$y>"`)
	s.shows("reading")
	s.types("one\n")
	s.shows("command: <one>")
	s.types("two\n")
	s.shows("shell: <two>")
}

func TestCtrlCReachesTheCommandAlone(t *testing.T) {
	t.Parallel()
	s := onScreen(t, masters(t), `trap : INT; "$0" run job -- sh -c 'echo ready; read x'; echo "status: $?"`)
	s.shows("ready")
	s.types(ctrlC)
	s.shows("status: 130")
}

func TestCtrlZStopsTheJobAndTheShellCanContinueIt(t *testing.T) {
	t.Parallel()
	s := onScreen(t, masters(t), `set -m; "$0" run job -- sh -c 'echo ready; read x; echo "command: <$x>"'
echo "shell: $?"; read y; fg; echo "status: $?"`)
	s.shows("ready")
	s.types(ctrlZ)
	s.shows("redlock: stopped: nothing extends job now")
	s.shows("shell: ")
	s.types("go on\n")
	s.shows("run job") // which fg prints
	s.types("typed\n")
	s.shows("command: <typed>")
	s.shows("status: 0")
}

func TestCtrlZForTooLongLosesTheLockAndTheCommandDoesNotContinue(t *testing.T) {
	t.Parallel()
	s := onScreen(t, masters(t), `set -m; "$0" run --ttl 12s --grace 0 job -- sh -c 'echo ready; read x; echo "command: <$x>"'
"$0" run job -- echo next; fg; echo "status: $?"`)
	s.shows("ready")
	s.types(ctrlZ)
	s.shows("next")
	s.shows("status: 74")
	require.NotContains(t, s.seen.String(), "command:")
}

// Without a shell that does job control nobody could go on with what has stopped.
func TestCtrlZDoesNothingWithoutJobControl(t *testing.T) {
	t.Parallel()
	s := onScreen(t, masters(t), `exec "$0" run job -- sh -c 'echo ready; read x; echo "command: <$x>"; read y'`)
	s.shows("ready")
	s.types(ctrlZ)
	s.shows("stopped")
	s.types("typed\n")
	s.shows("command: <typed>")
	s.types("\n")
	require.NoError(t, s.cmd.Wait())
}

func TestAJobInTheBackgroundLeavesTheTerminalToTheShell(t *testing.T) {
	t.Parallel()
	s := onScreen(t, masters(t), `set -m; "$0" run job -- sh -c 'echo ready; sleep 100' &
read y; echo "shell: <$y>"; kill %1; wait %1; echo "status: $?"`)
	s.shows("ready")
	s.types("typed\n")
	s.shows("shell: <typed>")
	s.shows("status: 143")
}
