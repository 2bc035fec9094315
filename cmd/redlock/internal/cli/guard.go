package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// RestartGuard is the guard of --guard. A Locker with WithRestartGuard writes markers on nodes that
// have none, and from then on clients without the guard are refused. The command does not begin a
// guard by itself, because one mistaken --guard would lock out all of those clients.
type RestartGuard struct {
	Locker *redlock.Locker
	MaxTTL time.Duration // 0: no guard
}

// Begun returns nil if a node has a marker of this guard. If none has one, it returns a
// notBegunError. The error matches ErrNoQuorum if too few nodes answered. Begun changes nothing on
// the nodes.
func (g RestartGuard) Begun(ctx context.Context) error {
	if g.MaxTTL == 0 {
		return nil
	}
	err := g.Locker.Healthy(ctx) // one round trip if the nodes are healthy
	if err == nil {
		return nil
	}
	report, diagnoseErr := doctor.Diagnose(ctx, g.Locker)
	if diagnoseErr != nil {
		return diagnoseErr
	}
	answered := 0
	for _, n := range report.Nodes {
		switch {
		case n.Guard == examine.StateOK, n.Guard == examine.StateQuarantined, n.Guard == examine.StateOutdated:
			return nil
		case n.Answered:
			answered++
		}
	}
	if answered < quorum.Majority(len(report.Nodes)) {
		return err
	}
	return notBegunError{g.MaxTTL, report}
}

// BegunFor is Begun after CheckArguments.
func (g RestartGuard) BegunFor(ctx context.Context, ask func(context.Context) error) error {
	if g.MaxTTL == 0 {
		return nil
	}
	if err := CheckArguments(ctx, ask); err != nil {
		return err
	}
	return g.Begun(ctx)
}

// CheckArguments returns the library's error for arguments that are out of bounds. It calls ask with a context that
// has ended: the library checks the arguments before the context, so nothing is sent.
func CheckArguments(ctx context.Context, ask func(context.Context) error) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := ask(over); errors.Is(err, redlock.ErrInvalid) {
		return err
	}
	return nil
}

// Resume resumes a claim after these checks.
func (g RestartGuard) Resume(ctx context.Context, claim redlock.Claim) (*redlock.Lock, error) {
	err := g.BegunFor(ctx, func(ctx context.Context) error {
		_, err := g.Locker.Resume(ctx, claim)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g.Locker.Resume(ctx, claim)
}

// Await asks again while too few nodes answer, and then returns what Begun returns. When ctx ends
// it returns the last answer, or err if there was none.
func (g RestartGuard) Await(ctx context.Context, err error) error {
	for errors.Is(err, redlock.ErrNoQuorum) && Rest(ctx, GuardPause) == nil {
		if next := g.Begun(ctx); ctx.Err() == nil {
			err = next
		}
	}
	return err
}

// GuardPause is the pause between two queries of the nodes' markers.
const GuardPause = 250 * time.Millisecond

// notBegunError reports that the command does not begin the guard.
type notBegunError struct {
	maxTTL time.Duration
	report *doctor.Report
}

func (e notBegunError) Error() string {
	for _, n := range e.report.Nodes {
		if n.Guard != examine.StateForeign && n.Guard != examine.StateUnreadable {
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

// isNotBegun reports whether no lock was requested for this reason.
func isNotBegun(err error) bool {
	var e notBegunError
	return errors.As(err, &e)
}
