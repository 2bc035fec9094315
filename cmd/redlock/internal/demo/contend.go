package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	contenders = 8
	turns      = 10              // of each client
	turnsTime  = 4 * time.Second // no turn begins after this time, so a busy machine makes fewer
)

// contend shows eight clients that add to one counter. Each has connections of its own, like a
// program on another machine. The counter loses additions unless only one client at a time adds.
func (s *show) contend(ctx context.Context) error {
	var without counter
	all, err := s.crowd(func(int) error { return without.add(ctx) })
	if err != nil {
		return err
	}
	s.Row("without", "%s: what two do at a time is counted once", s.bar(without.value.Load(), all))

	name := s.name("counter")
	clients, end, err := s.crew(contenders)
	if err != nil {
		return err
	}
	defer end()
	var with counter
	var longest atomic.Int64
	began := s.clock.Now()
	all, err = s.crowd(func(i int) error {
		asked := s.clock.Now()
		return clients[i].Do(ctx, name, 5*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
			raise(&longest, int64(s.clock.Now().Sub(asked)))
			return with.add(ctx)
		})
	})
	took := s.clock.Now().Sub(began)
	s.Row("with", "%s", s.bar(with.value.Load(), all))
	s.Row("", "%s", s.In(terminal.Faint, fmt.Sprintf("%s for %d turns, the longest wait was %s", terminal.Short(took), all, terminal.Short(time.Duration(longest.Load())))))
	switch {
	case err != nil:
		return err
	case with.value.Load() != all:
		return fmt.Errorf("the counter is %d after %d turns", with.value.Load(), all)
	case with.most.Load() > 1:
		return fmt.Errorf("%d were inside at a time", with.most.Load())
	}
	s.Good("exact, and never more than one inside")
	return nil
}

// counter loses additions that overlap: a value is read first and written later. The fields are
// atomic, so that an overlap loses additions but is no data race.
type counter struct {
	value  atomic.Int64
	inside atomic.Int64
	most   atomic.Int64 // most clients inside at a time
}

func (c *counter) add(ctx context.Context) error {
	raise(&c.most, c.inside.Add(1))
	defer c.inside.Add(-1)
	seen := c.value.Load()
	if err := cli.Rest(ctx, time.Millisecond); err != nil { // the work
		return err
	}
	c.value.Store(seen + 1)
	return nil
}

// crowd lets every contender take its turns, and returns the number of turns. It returns the first
// failure.
func (s *show) crowd(turn func(contender int) error) (taken int64, err error) {
	errs := make([]error, contenders)
	var count atomic.Int64
	var wg sync.WaitGroup
	end := s.clock.Now().Add(turnsTime)
	for i := range contenders {
		wg.Go(func() {
			for n := 0; n < turns && errs[i] == nil && s.clock.Now().Before(end); n++ {
				if errs[i] = turn(i); errs[i] == nil {
					count.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return count.Load(), fmt.Errorf("client-%d: %w", i+1, err)
		}
	}
	return count.Load(), nil
}

// crew makes several clients.
func (s *show) crew(n int, opts ...redlock.Option) (clients []*redlock.Locker, end func(), err error) {
	var ends []func()
	end = func() {
		var wg sync.WaitGroup
		for _, e := range ends {
			wg.Go(e)
		}
		wg.Wait()
	}
	for i := range n {
		l, e, err := s.stage.Client(fmt.Sprintf("client-%d", i+1), opts...)
		if err != nil {
			end()
			return nil, nil, err
		}
		clients, ends = append(clients, l), append(ends, e)
	}
	return clients, end, nil
}

// bar draws a part of a whole, with its number.
func (s *show) bar(part, whole int64) string {
	const width = 40
	n := int(min(part, whole) * width / max(whole, 1)) // a failed turn may have added
	colour := terminal.Amber
	if part == whole {
		colour = terminal.Green
	}
	return fmt.Sprintf("%s%s %3d of %d", s.In(colour, strings.Repeat("█", n)), s.In(terminal.Faint, strings.Repeat("░", width-n)), part, whole)
}

// raise sets a to v if v is larger.
func raise(a *atomic.Int64, v int64) {
	old := a.Load()
	for old < v && !a.CompareAndSwap(old, v) {
		old = a.Load()
	}
}
