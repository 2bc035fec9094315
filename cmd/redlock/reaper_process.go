//go:build unix && !aix && !solaris

package main

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

// reaperProcess is the process that kills the command when this one can't: when it was
// killed, which closes the pipe between them, or when it is stopped and does not
// answer. The keeper asks how long the command may run, and counts the answer from
// before its question, as a lock's validity is counted: so no clock is shared, and
// an answer that was long under way is worth less, never more.
//
// PR_SET_PDEATHSIG is no substitute (docs/dev/hazards.md H106): it leaves the command's own
// children, knows nothing of a stopped parent, and fires when a thread ends.
//
// What the keeper can't help is a kill that hits both, and a process that left the
// group.
type reaperProcess struct {
	cmd      *exec.Cmd
	tell     io.WriteCloser
	answerer sync.WaitGroup
}

// startTimeout bounds how long the keeper may take to start. It has nothing to do but ask.
const startTimeout = 5 * time.Second

// startReaper returns when the keeper knows the group, and how long it may live.
func startReaper(g group, left func() time.Duration) (*reaperProcess, error) {
	cmd := exec.Command(self(), reaperMode)
	// A session of its own: no signal for this process's group or terminal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	cmd.Env = []string{} // it needs none of our secrets
	tell, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	questions, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("can't start the keeper: %w", err)
	}
	k := &reaperProcess{cmd: cmd, tell: tell}
	late := time.AfterFunc(startTimeout, func() { _ = cmd.Process.Kill() })
	asked := bufio.NewScanner(questions)
	_, _ = fmt.Fprintln(tell, int(g))
	if !asked.Scan() {
		late.Stop()
		return nil, oneline.Join(errors.New("the keeper does not answer"), cmd.Wait())
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

func (k *reaperProcess) answer(left func() time.Duration) { _, _ = fmt.Fprintln(k.tell, int64(left())) }

// stop ends the keeper: there is nothing left to kill. It must not outlive this
// process, because the group's id may be another's then.
func (k *reaperProcess) stop() {
	_, _ = fmt.Fprintln(k.tell, doneMessage)
	late := time.AfterFunc(time.Second, func() { _ = k.cmd.Process.Kill() })
	defer late.Stop()
	k.answerer.Wait() // ends with the keeper
	_ = k.cmd.Wait()
}
