//go:build unix && !aix && !solaris

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Reaper is the process that kills the command when this one cannot: when it was killed,
// which closes the pipe between them, or when it is stopped and does not answer. The reaper asks
// how long the command may run. It counts the answer from before its question, as a lock's validity
// is counted. So the processes share no clock, and a late answer allows less time and never more.
//
// PR_SET_PDEATHSIG is no substitute (docs/dev/hazards.md H106): it does not reach the command's own
// children, does not notice a stopped parent, and fires when a thread ends.
//
// The reaper cannot prevent the effects of a kill that ends both processes, nor end a process that
// has left the group.
type Reaper struct {
	cmd      *exec.Cmd
	tell     io.WriteCloser
	answerer sync.WaitGroup
}

// startTimeout bounds how long the reaper may take to start and to ask its first question.
const startTimeout = 5 * time.Second

// StartReaper starts the reaper. It returns when the reaper knows the group and how long it may
// live.
func StartReaper(g Group, left func() time.Duration) (*Reaper, error) {
	cmd := exec.Command(self(), ReaperMode)
	// A session of its own: no signal for this process's group or terminal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	cmd.Env = []string{} // it must not inherit secrets
	tell, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	questions, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("can't start the reaper: %w", err)
	}
	k := &Reaper{cmd: cmd, tell: tell}
	late := time.AfterFunc(startTimeout, func() { _ = cmd.Process.Kill() })
	asked := bufio.NewScanner(questions)
	_, _ = fmt.Fprintln(tell, int(g))
	if !asked.Scan() {
		late.Stop()
		return nil, oneline.Join(errors.New("the reaper does not answer"), cmd.Wait())
	}
	late.Stop()
	k.answer(left)
	k.answerer.Go(func() {
		for asked.Scan() {
			k.answer(left)
		}
	})
	return k, nil
}

func (k *Reaper) answer(left func() time.Duration) { _, _ = fmt.Fprintln(k.tell, int64(left())) }

// Stop ends the reaper when nothing is left of the group. The reaper must not outlive this
// process, because the kernel may then give the group's id to another group. Either Wait here or
// Child.Watch reaps it, so Wait may return an error.
func (k *Reaper) Stop() {
	_, _ = fmt.Fprintln(k.tell, doneMessage)
	late := time.AfterFunc(time.Second, func() { _ = k.cmd.Process.Kill() })
	defer late.Stop()
	k.answerer.Wait() // ends with the reaper
	_ = k.cmd.Wait()
}
