package redistest

import (
	"context"
	"os"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Pause freezes the server's process. Connections stay open and new ones are accepted, but nothing
// is answered until [Node.Unpause]. Then the server receives all that was sent meanwhile.
//
// The process is stopped by a signal if it runs on this machine and may be signalled. Docker's own pause
// is for all others, because a busy engine may be unable to freeze a container.
func (n *Node) Pause(t testing.TB) {
	t.Helper()
	if n.freeze() {
		return
	}
	n.fault(t, "pause", isPaused, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerPause(ctx, n.id, client.ContainerPauseOptions{})
		return err
	})
}

// Unpause resumes a paused server.
func (n *Node) Unpause(t testing.TB) {
	t.Helper()
	if n.thaw() {
		return
	}
	isResumed := func(c *container.InspectResponse) bool { return !isDead(c) && !isPaused(c) }
	n.fault(t, "unpause", isResumed, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerUnpause(ctx, n.id, client.ContainerUnpauseOptions{})
		return err
	})
}

func isPaused(c *container.InspectResponse) bool { return c.State != nil && c.State.Paused }

// findProcess asks the engine for the server's process, once for each start: the faults that follow
// signal it without the engine.
func (n *Node) findProcess(ctx context.Context, cli *client.Client) error {
	found, err := cli.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pid = 0
	if found.Container.State != nil {
		n.pid = found.Container.State.Pid
	}
	return nil
}

// process returns the server's process if it runs on this machine and may be signalled, else nil.
func (n *Node) process() *os.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return ofContainer(n.pid, n.id)
}

// end kills the server's process by a signal, and reports whether it is gone.
func (n *Node) end() bool {
	p := n.process()
	if p == nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return end(p)
}

// freeze stops the server's process by a signal, and reports whether it stands still.
func (n *Node) freeze() bool {
	p := n.process()
	if p == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !stop(p) {
		_ = p.Release()
		return false
	}
	n.frozen = p
	return true
}

// thaw lets the process run that freeze has stopped, and reports whether it did. There is none if
// the server has ended meanwhile.
func (n *Node) thaw() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen == nil {
		return false
	}
	err := resume(n.frozen)
	_ = n.frozen.Release()
	n.frozen = nil
	return err == nil
}

func (n *Node) isFrozen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frozen != nil
}
