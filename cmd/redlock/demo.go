package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

const demoSynopsis = "[--nodes URLs]"

const demoText = `It takes less than 15 seconds. Without --nodes it starts three masters inside of
this process. With --nodes (or REDLOCK_NODES) it uses yours, by names that nobody
else has, leaves nothing behind, and does not stop any of them: it cuts its own
connection to one instead.

Exit status: 0 when all went as it should, 1 when anything did not, 64 for wrong
usage.

Example:
  redlock demo
`

// show is one run of the demo.
type show struct {
	*page
	stage *stage
	clock clock.Clock
	run   string   // in every name of this run
	names []string // that were used
}

// act is one part. It returns what went wrong.
type act struct {
	title, point string
	play         func(ctx context.Context) error
}

func (s *show) acts() []act {
	n := len(s.stage.configs)
	return []act{
		{
			"One lock, from acquisition to release",
			fmt.Sprintf("%d of %d masters have to grant it; nobody waits for the rest.", quorum.Majority(n), n), s.life,
		},
		{
			"Eight contenders for one name",
			"Each reads a counter, works for a moment, and writes it back, one higher.", s.contend,
		},
		{
			"A master fails, and the work goes on",
			"One lock after the other, each in a single attempt.", s.fail,
		},
		{
			"A holder stops extending, and the next one takes over",
			"A holder knows by its own clock when its time is over.", s.takeOver,
		},
	}
}

// demoTime bounds the demo: what hangs is a failure too.
const demoTime = 15 * time.Second

// demo is the subcommand.
func demo(ctx context.Context, c *call) int {
	f := newForm(c, demoText)
	given := nodesFlag(f.FlagSet)
	words, behind, _, exit, done := f.read()
	if done {
		return exit
	}
	if len(words)+len(behind) > 0 {
		return c.misused("it takes no NAME")
	}
	st, err := setStage(c, *given)
	switch {
	case errors.Is(err, redlock.ErrInvalid), errors.Is(err, errEmptyNode):
		return c.misused("%v", err)
	case err != nil:
		c.say("%v", err)
		return exitFailed
	}
	defer st.close()
	ctx, stop := listen().until(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	s := &show{page: newPage(c), stage: st, clock: clock.System(), run: "demo-" + strings.ToLower(rand.Text()[:5])}
	return s.all(ctx)
}

func setStage(c *call, given string) (*stage, error) {
	urls, err := c.nodes(given)
	switch {
	case errors.Is(err, errNoNodes):
		return ownStage()
	case err != nil:
		return nil, err
	}
	st, err := givenStage(urls)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", redlock.ErrInvalid, err)
	}
	return st, nil
}

// all plays every act, also after one that failed.
func (s *show) all(ctx context.Context) int {
	began := s.clock.Now()
	s.open()
	if err := s.healthy(ctx); err != nil {
		s.bad("%s\n", plain(err)) // every act would wait for nodes that don't come
		return exitFailed
	}
	failed := 0
	acts := s.acts()
	for i, a := range acts {
		if ctx.Err() != nil {
			break
		}
		s.title(i+1, a.title, a.point)
		if err := a.play(ctx); err != nil {
			failed++
			s.bad("%s", plain(err))
		}
	}
	s.line("")
	if err := s.clean(ctx); err != nil {
		failed++
		s.bad("%s", plain(err))
	}
	var sig signalError
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &sig):
		return exitSignal + int(sig.Signal)
	case cause != nil:
		s.line(" %s\n", s.in(red, "It took more than "+demoTime.String()+"."))
		return exitFailed
	case failed > 0:
		s.line(" %s\n", s.in(red, "Not all went well."))
		return exitFailed
	}
	s.line(" %s %s\n", s.in(green, "All went well."), s.in(faint, short(s.clock.Now().Sub(began))))
	return exitOK
}

func (s *show) open() {
	n := len(s.stage.configs)
	what := fmt.Sprintf("%d Redis masters inside of this process", n)
	if s.stage.masters == nil {
		what = fmt.Sprintf("your %d Redis masters", n)
	}
	s.line("\n %s  %s", s.in(bold, "redlock demo"), s.in(faint, "on "+what))
	for _, cfg := range s.stage.configs {
		s.line("    %s", s.in(faint, cfg.String()))
	}
}

func (s *show) healthy(ctx context.Context) error {
	l, end, err := s.stage.client("")
	if err != nil {
		return err
	}
	defer end()
	return l.Healthy(ctx)
}

// name is one that nobody else uses, and that is looked for at the end.
func (s *show) name(of string) string {
	name := s.run + "/" + of
	s.names = append(s.names, name)
	return name
}

func (s *show) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := s.stage.leftovers(ctx, s.names); err != nil {
		return err
	}
	s.good("nothing is left behind on any master")
	return nil
}
