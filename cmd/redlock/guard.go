package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

// restartGuard is the guard that --guard asks for. A Locker with WithRestartGuard writes
// markers on nodes that have none, and clients without the guard are refused from then on.
// The command does not begin that by itself: one stray --guard would lock them all out.
type restartGuard struct {
	locker *redlock.Locker
	maxTTL time.Duration // 0: none
}

// begun is nil where a node has a marker of this guard. Without any it is a notBegunError; it
// matches ErrNoQuorum while too few nodes answer to tell. It changes nothing on them.
func (g restartGuard) begun(ctx context.Context) error {
	if g.maxTTL == 0 {
		return nil
	}
	err := g.locker.Healthy(ctx) // which is soon known where all is well
	if err == nil {
		return nil
	}
	report, lookErr := g.locker.Diagnose(ctx)
	if lookErr != nil {
		return lookErr
	}
	answered := 0
	for _, n := range report.Nodes {
		switch {
		case n.Guard == redlock.GuardOK, n.Guard == redlock.GuardQuarantined, n.Guard == redlock.GuardOutdated:
			return nil
		case n.Answered:
			answered++
		}
	}
	if answered < quorum.Majority(len(report.Nodes)) {
		return err
	}
	return notBegunError{g.maxTTL, report}
}

// begunFor is begun, unless the library refuses what it would be asked for: it looks at that before
// it looks at a context, which has ended here, so that nothing is sent.
func (g restartGuard) begunFor(ctx context.Context, ask func(context.Context) error) error {
	if g.maxTTL == 0 {
		return nil
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := ask(over); errors.Is(err, redlock.ErrInvalid) {
		return err
	}
	return g.begun(ctx)
}

// await asks again while too few nodes answer to tell, and returns what begun does. Once ctx is
// done that is the last answer: err, if there was no other.
func (g restartGuard) await(ctx context.Context, err error) error {
	for errors.Is(err, redlock.ErrNoQuorum) && rest(ctx, guardPause) == nil {
		if next := g.begun(ctx); ctx.Err() == nil {
			err = next
		}
	}
	return err
}

// guardPause is the pause between two looks at the nodes' markers.
const guardPause = 250 * time.Millisecond

// notBegunError is the refusal to begin the guard.
type notBegunError struct {
	maxTTL time.Duration
	report *redlock.Report
}

func (e notBegunError) Error() string {
	for _, n := range e.report.Nodes {
		if n.Guard != redlock.GuardForeign && n.Guard != redlock.GuardUnreadable {
			continue
		}
		for _, f := range n.Findings {
			if f.Code == "guard" {
				return f.Text
			}
		}
	}
	command := fmt.Sprintf("redlock doctor --guard %v", e.maxTTL)
	return fmt.Sprintf("the restart guard has not begun: no node has a marker of --guard %v and this list, and a marker would make it refuse "+
		"all clients without the guard: begin it with `%s --begin-guard`, which waits %v, or, while no client is running, with `%s --admit`, "+
		"which skips the wait", e.maxTTL, command, e.maxTTL, command)
}

// isNotBegun reports whether that is why the nodes were not asked for a lock.
func isNotBegun(err error) bool {
	var e notBegunError
	return errors.As(err, &e)
}
