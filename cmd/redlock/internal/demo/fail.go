package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// fail shows that work continues while one node is down, and when it returns.
func (s *show) fail(ctx context.Context) error {
	if !s.stage.Spare() {
		s.Row("skipped", "of fewer than 3 nodes none may fail")
		return nil
	}
	name := s.name("batch")
	votes := make(votes, 4096)
	carl, end, err := s.stage.Client("carl", redlock.WithTrace(&redlock.Trace{Vote: votes.add}))
	if err != nil {
		return err
	}
	defer end()
	victim := len(s.stage.Configs) / 2
	down, up := s.deeds(s.stage.Configs[victim].Name)
	w := &worker{show: s, locker: carl, name: name}
	if err := w.work(ctx, 250*time.Millisecond); err != nil {
		return err
	}
	w.tell("before")
	s.stage.Fail(victim)
	s.Row("", "%s %s", s.In(terminal.Red, "▼"), down)
	if err := w.work(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	w.tell("meanwhile")
	if err := s.stage.Mend(victim); err != nil {
		return err
	}
	s.Row("", "%s %s", s.In(terminal.Green, "▲"), up)
	back, err := w.untilVote(ctx, votes, s.stage.Configs[victim].Name)
	if err != nil {
		return err
	}
	w.tell("afterwards")
	s.Row("", "%s", s.In(terminal.Faint, "it voted again after "+terminal.Short(back)))
	if w.missed > 0 {
		return fmt.Errorf("%d turns were missed", w.missed)
	}
	s.Good("%d turns, none missed", w.total)
	return nil
}

// deeds returns the words for making a node fail, and for its return.
func (s *show) deeds(node string) (down, up string) {
	node = s.In(terminal.Bold, node)
	if !s.stage.Embedded() {
		return "our connection to " + node + " is cut (the node itself is left alone)",
			"our connection to " + node + " may be made again"
	}
	return node + " is stopped", node + " is started again, empty"
}

// worker acquires one lock after another.
type worker struct {
	*show
	locker *redlock.Locker
	name   string
	took   []time.Duration // the acquisitions since the last tell
	total  int
	missed int
}

// work takes turns for a while.
func (w *worker) work(ctx context.Context, d time.Duration) error {
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		if err := w.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// turn acquires a lock without waiting for a holder, does a little work, and releases it.
func (w *worker) turn(ctx context.Context) error {
	began := w.clock.Now()
	lock, err := w.locker.TryAcquire(ctx, w.name, 5*time.Second)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		w.missed++
		w.Row("", "%s %s", w.In(terminal.Red, "✗"), cli.WithoutPrefix(err))
		return cli.Rest(ctx, 10*time.Millisecond)
	}
	w.took, w.total = append(w.took, w.clock.Now().Sub(began)), w.total+1
	return oneline.Join(cli.Rest(ctx, 10*time.Millisecond), lock.Release(ctx))
}

// tell prints the turns since its last call: a mark for each, and the slowest.
func (w *worker) tell(when string) {
	slowest := time.Duration(0)
	for _, d := range w.took {
		slowest = max(slowest, d)
	}
	marks := w.In(terminal.Green, strings.Repeat("·", min(len(w.took), 50)))
	w.Row(when, "%s %s", marks, w.In(terminal.Faint, fmt.Sprintf("%d turns, the slowest acquired in %s", len(w.took), terminal.Short(slowest))))
	w.took = nil
}

// untilVote takes turns until the node grants again, and returns how long that took.
func (w *worker) untilVote(ctx context.Context, votes votes, node string) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cli.Slowed(3*time.Second), errors.New(node+" did not come back"))
	defer cancel()
	began := w.clock.Now()
	votes.forget()
	for {
		if err := w.turn(ctx); err != nil {
			return 0, err
		}
		if votes.granted(node) {
			return w.clock.Now().Sub(began), nil
		}
	}
}

// forget discards the votes received so far.
func (v votes) forget() {
	for {
		select {
		case <-v:
		default:
			return
		}
	}
}

// granted reports whether the node has granted an acquisition since the last call.
func (v votes) granted(node string) bool {
	for {
		select {
		case e := <-v:
			if e.Op == "acquire" && e.Vote.Node == node && e.Vote.Outcome == redlock.OutcomeGranted {
				return true
			}
		default:
			return false
		}
	}
}
