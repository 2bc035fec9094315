package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

// life shows one lock from its acquisition to its release, with every node's vote.
func (s *show) life(ctx context.Context) error {
	const ttl = 10 * time.Second
	name := s.name("invoice")
	votes := make(votes, 256)
	anna, end, err := s.stage.Client("anna", redlock.WithTrace(&redlock.Trace{Vote: votes.add}))
	if err != nil {
		return err
	}
	defer end()
	if err := anna.Healthy(ctx); err != nil { // otherwise the first votes would include the dials
		return err
	}
	lock, err := anna.TryAcquire(ctx, name, ttl)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release(ctx) }() // a second Release does nothing
	valid := lock.Remaining()
	s.Row("acquire", "%s for %v, by %s", s.In(terminal.Bold, name), ttl, s.In(terminal.Bold, "anna"))
	if err := s.showVotes(ctx, votes, "acquire"); err != nil {
		return err
	}
	s.Row("held", "for %s more: the clocks may drift apart by the rest", s.In(terminal.Bold, terminal.Short(valid)))
	if err := s.refused(ctx, name, ttl); err != nil {
		return err
	}
	if err := lock.Extend(ctx, ttl); err != nil {
		return err
	}
	s.Row("extend", "for %v from now on", ttl)
	if err := s.showVotes(ctx, votes, "extend"); err != nil {
		return err
	}
	if err := lock.Release(ctx); err != nil {
		return err
	}
	s.Row("release", "before its time is over")
	if err := s.showVotes(ctx, votes, "release"); err != nil {
		return err
	}
	if cause := context.Cause(lock.Context()); !errors.Is(cause, redlock.ErrReleased) {
		return fmt.Errorf("the lock's context ended with %w", cause)
	}
	s.Good("held by one, refused to the other, given back")
	return nil
}

// refused shows the error that a second client gets.
func (s *show) refused(ctx context.Context, name string, ttl time.Duration) error {
	ben, end, err := s.stage.Client("ben")
	if err != nil {
		return err
	}
	defer end()
	lock, err := ben.TryAcquire(ctx, name, ttl)
	if err == nil {
		_ = lock.Release(ctx)
		return errors.New("ben got the lock that anna holds")
	}
	if !errors.Is(err, redlock.ErrHeld) {
		return err
	}
	s.Row("ben tries", "%s", cli.Brief(err))
	return nil
}

// votes receives votes from the hooks of a Locker.
type votes chan redlock.VoteEvent

func (v votes) add(e redlock.VoteEvent) {
	select {
	case v <- e:
	default: // more votes than are shown
	}
}

// showVotes waits for all nodes, and prints each vote with its time. It returns an error unless a
// quorum granted.
func (s *show) showVotes(ctx context.Context, votes votes, op string) error {
	ctx, cancel := context.WithTimeout(ctx, cli.Slowed(2*time.Second))
	defer cancel()
	all := len(s.stage.Configs)
	need, granted := quorum.Majority(all), 0
	for range all {
		e, err := votes.next(ctx, op)
		if err != nil {
			break // a node that does not answer
		}
		s.vote(e.Vote, granted >= need)
		if e.Vote.Outcome == redlock.OutcomeGranted {
			granted++
		}
	}
	if granted < need {
		return fmt.Errorf("%s: granted by %d of %d nodes", op, granted, all)
	}
	return nil
}

// next is the next vote of an operation.
func (v votes) next(ctx context.Context, op string) (redlock.VoteEvent, error) {
	for {
		select {
		case e := <-v:
			if e.Op == op {
				return e, nil
			}
		case <-ctx.Done():
			return redlock.VoteEvent{}, ctx.Err()
		}
	}
}

func (s *show) vote(v redlock.Vote, late bool) {
	mark, text := s.In(terminal.Green, "✓"), v.Outcome.String()
	if v.Outcome != redlock.OutcomeGranted {
		mark = s.In(terminal.Amber, "–")
		text += s.In(terminal.Faint, fmt.Sprintf(": %v", v.Err))
	} else if late {
		text += s.In(terminal.Faint, ", later than the quorum")
	}
	s.Row("", "%s %s  %9s  %s", mark, terminal.Pad(v.Node, s.width()), terminal.Short(v.Took), text)
}

// width returns the length of the longest node name.
func (s *show) width() int {
	w := 0
	for _, cfg := range s.stage.Configs {
		w = max(w, len(cfg.Name))
	}
	return w
}
