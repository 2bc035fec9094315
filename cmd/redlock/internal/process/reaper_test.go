//go:build unix && !aix && !solaris

package process

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// keeping is a reaper in a bubble, with redlock's ends of its pipes.
type testReaper struct {
	t         *testing.T
	tell      *io.PipeWriter
	questions *bufio.Scanner
	killed    chan Group // closed when the reaper has ended
}

func startKept(t *testing.T) *testReaper {
	t.Helper()
	in, tell := io.Pipe()
	asked, out := io.Pipe()
	k := &testReaper{t: t, tell: tell, questions: bufio.NewScanner(asked), killed: make(chan Group, 1)}
	go func() {
		defer close(k.killed)
		reaper{in: in, out: out, clock: clock.Runtime(), kill: func(g Group) { k.killed <- g }}.watch()
		_ = out.Close()
		_ = in.Close()
	}()
	t.Cleanup(func() { _ = tell.Close() })
	return k
}

func (k *testReaper) say(line any) {
	k.t.Helper()
	_, err := fmt.Fprintln(k.tell, line)
	require.NoError(k.t, err)
}

func (k *testReaper) asked() {
	k.t.Helper()
	require.True(k.t, k.questions.Scan())
	require.Equal(k.t, question, k.questions.Text())
}

func TestAReaperAsksAndEndsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startKept(t)
		k.say(4711)
		for range 1000 { // many times the time that one answer gives
			k.asked()
			k.say(int64(10 * time.Second))
		}
		k.asked()
		k.say(doneMessage)
		_, ok := <-k.killed
		require.False(t, ok)
	})
}

func TestAKeeperKillsWhenRedlockIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := startKept(t)
		k.say(4711)
		k.asked()
		k.say(int64(time.Hour))
		require.NoError(t, k.tell.Close())
		require.Equal(t, Group(4711), <-k.killed)
		require.Equal(t, began, time.Now())
	})
}

func TestAReaperKillsAfterTheTimeOfTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startKept(t)
		k.say(4711)
		k.asked()
		began := time.Now()
		k.say(int64(10 * time.Second))
		k.asked() // nobody answers any more
		require.Equal(t, Group(4711), <-k.killed)
		require.InDelta(t, 10*time.Second, time.Since(began), float64(5*time.Millisecond))
	})
}

// A lock's validity is counted from before the request; so is the reaper's answer.
func TestAKeeperCountsAnAnswerFromBeforeItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startKept(t)
		k.say(4711)
		k.asked()
		began := time.Now()
		time.Sleep(3 * time.Second) // redlock was stopped, before it read or after it computed
		k.say(int64(4 * time.Second))
		go func() {
			for k.questions.Scan() { // none is answered
			}
		}()
		require.Equal(t, Group(4711), <-k.killed)
		require.InDelta(t, 4*time.Second, time.Since(began), float64(5*time.Millisecond))
	})
}

func TestAKeeperWithoutAGroupKillsNothing(t *testing.T) {
	for _, line := range []string{"", "0", "1", "-5", "x"} {
		synctest.Test(t, func(t *testing.T) {
			k := startKept(t)
			if line != "" {
				k.say(line)
			}
			require.NoError(t, k.tell.Close())
			_, ok := <-k.killed
			require.False(t, ok)
		})
	}
}

func TestAKeeperTakesNonsenseForAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startKept(t)
		k.say(4711)
		k.asked()
		k.say("nonsense")
		require.Equal(t, Group(4711), <-k.killed)
	})
}

// A zombie is a member until its parent has waited for it.
func TestAGroupThatIsNotGoneIsReported(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	groups := &Groups{own: Group(cmd.Process.Pid)}
	require.False(t, groups.Kill())
	require.Error(t, cmd.Wait())
	require.True(t, groups.Kill())
}
