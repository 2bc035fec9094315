package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// takeOver shows a holder that hangs. It extends twice and then stops. Its context ends with the
// validity, and only then the next client holds the lock.
func (s *show) takeOver(ctx context.Context) error {
	ttl := cli.Slowed(1500 * time.Millisecond)
	name := s.name("leader")
	tries := make(tried, 100)
	crew, end, err := s.crew(2, redlock.WithTrace(&redlock.Trace{Attempt: tries.add}))
	if err != nil {
		return err
	}
	defer end()
	for _, l := range crew {
		if err := l.Healthy(ctx); err != nil {
			return err
		}
	}
	t := &timeline{show: s, began: s.clock.Now()}
	dora, err := crew[0].TryAcquire(ctx, name, ttl)
	if err != nil {
		return err
	}
	defer func() { _ = dora.Release(ctx) }()
	t.mark("dora holds it, to %s", t.at(s.clock.Now().Add(dora.Remaining())))

	var emil *redlock.Lock
	var got clock.Instant
	var waited sync.WaitGroup
	waited.Go(func() {
		emil, err = crew[1].Acquire(ctx, name, ttl)
		got = s.clock.Now()
	})
	t.mark("emil waits for it")
	if err := t.extendTwice(ctx, dora, ttl); err != nil {
		return oneline.Join(context.Cause(ctx), err)
	}
	until := s.clock.Now().Add(dora.Remaining())
	t.mark("dora hangs: no extension from here on")
	<-dora.Context().Done()
	lost := s.clock.Now()
	t.mark("dora's context ends: %s", cli.WithoutPrefix(context.Cause(dora.Context())))
	waited.Wait()
	if err != nil {
		return err
	}
	t.markAt(got, "emil holds it, %s later", terminal.Short(got.Sub(lost)))
	t.draw(until, got, got.Add(300*time.Millisecond))
	if err := emil.Release(ctx); err != nil {
		return err
	}
	return t.judge(dora, until, lost, got, tries)
}

// tried receives the attempts to acquire the lock.
type tried chan redlock.RoundEvent

func (t tried) add(e redlock.RoundEvent) { t <- e }

// failures returns why the attempts failed since an instant, until the one that succeeded.
func (t tried) failures(since time.Time) (failed []error) {
	for {
		switch e := <-t; {
		case e.At.Before(since):
		case e.Err == nil:
			return failed
		default:
			failed = append(failed, e.Err)
		}
	}
}

// timeline prints events with their times.
type timeline struct {
	*show
	began clock.Instant
}

func (t *timeline) mark(format string, args ...any) { t.markAt(t.clock.Now(), format, args...) }

func (t *timeline) markAt(at clock.Instant, format string, args ...any) {
	t.Row(t.at(at), format, args...)
}

func (t *timeline) at(at clock.Instant) string {
	return fmt.Sprintf("%.3f s", at.Sub(t.began).Seconds())
}

func (t *timeline) extendTwice(ctx context.Context, lock *redlock.Lock, ttl time.Duration) error {
	for range 2 {
		if err := cli.Rest(ctx, 400*time.Millisecond); err != nil {
			return err
		}
		if err := lock.Extend(ctx, ttl); err != nil {
			return err
		}
		t.mark("dora extends it, to %s", t.at(t.clock.Now().Add(lock.Remaining())))
	}
	return nil
}

// draw draws both holds on one time axis.
func (t *timeline) draw(until, got, end clock.Instant) {
	const width = 56
	column := func(at clock.Instant) int { return int(at.Sub(t.began) * width / end.Sub(t.began)) }
	dora, emil := column(until), column(got)
	t.Line("")
	t.Row("dora", "%s", t.In(terminal.Green, strings.Repeat("█", dora)))
	t.Row("emil", "%s%s", t.In(terminal.Faint, strings.Repeat("·", emil)), t.In(terminal.Blue, strings.Repeat("█", max(1, width-emil))))
	t.Line("")
}

// judge returns an error if the holds overlapped, or ended at the wrong time.
// A lock that lies idle while nodes do not answer is no mistake of the library.
func (t *timeline) judge(dora *redlock.Lock, until, lost, got clock.Instant, tries tried) error {
	late, idle := cli.Slowed(time.Second), got.Sub(until)
	switch err := context.Cause(dora.Context()); {
	case !errors.Is(err, redlock.ErrLost):
		return fmt.Errorf("dora's context ended with %w", err)
	case got.Before(until):
		return fmt.Errorf("emil had it %s before dora's validity ended", terminal.Short(until.Sub(got)))
	case lost.Sub(until) > late:
		return fmt.Errorf("dora was told %s after her validity had ended", terminal.Short(lost.Sub(until)))
	case idle > late:
		failed := tries.failures(time.Now().Add(-t.clock.Now().Sub(until)))
		i := slices.IndexFunc(failed, unanswered)
		if i < 0 {
			return fmt.Errorf("the lock lay idle for %s, with these failed attempts: %v", terminal.Short(idle), failed)
		}
		t.Row("", "the nodes were slow: %s", cli.WithoutPrefix(failed[i]))
	}
	t.Good("never two holders, and %s with none", terminal.Short(idle))
	return nil
}

// unanswered reports whether an attempt failed because nodes did not answer, or answered late.
func unanswered(err error) bool {
	return errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrTooLate)
}
