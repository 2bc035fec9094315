package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

func demoEntry() *subcommand {
	return &subcommand{
		Command: &cobra.Command{
			Use:     "demo [flags]",
			Short:   "see a lock at work: votes, contenders, a failure, a takeover",
			Long:    demoAbout,
			Example: "  redlock demo",
		},
		flags: demoFlags,
		exitStatuses: []exitStatus{
			{exitOK, "every part succeeded"},
			{exitFailed, "a part failed"},
			endsMisused, endsUnwritten, endsSignal,
		},
	}
}

const demoAbout = `It takes less than 15 seconds. Without --nodes it starts three nodes inside this process.
With --nodes (or REDLOCK_NODES) it uses your nodes. It uses names that no other client
uses, leaves no key, and does not stop a node: it cuts its own connection to one instead.

With --json it prints one object:
  ok       every part succeeded
  took_ms  the duration
  acts     for each part
    title   what it shows
    error   what failed; "" if nothing did
  error    what failed; absent if nothing did
`

// show is one run of the demo.
type show struct {
	*printer
	stage *stage
	clock clock.Clock
	run   string   // in every name of this run
	names []string // used so far

	result showResult
}

// act is one part of the demo.
type act struct {
	title, point string
	play         func(ctx context.Context) error
}

func (s *show) acts() []act {
	n := len(s.stage.configs)
	return []act{
		{
			"One lock, from acquisition to release",
			fmt.Sprintf("%d of %d nodes have to grant it; it does not wait for the rest.", quorum.Majority(n), n), s.life,
		},
		{
			"Eight contenders for one name",
			"Each reads a counter, works for a moment, and writes it back, one higher.", s.contend,
		},
		{
			"A node fails, and the work continues",
			"One lock after the other, each in a single attempt.", s.fail,
		},
		{
			"A holder stops extending, and the next one takes over",
			"A holder knows by its own clock when its lock expires.", s.takeOver,
		},
	}
}

// demoTime bounds the demo: what hangs is a failure too.
const demoTime = 15 * time.Second

func demoFlags(f *pflag.FlagSet) runFunc {
	nodesFlags(f)
	return func(ctx context.Context, c *invocation) int {
		if len(c.all()) > 0 {
			return c.misused("takes no NAME")
		}
		nodes, err := c.nodes()
		if err != nil && (!errors.Is(err, errNoNodes) || c.nodesGiven()) {
			return c.misused("%v", err)
		}
		st, err := setStage(nodes, c.prefix())
		switch {
		case errors.Is(err, redlock.ErrInvalid):
			return c.misused("%v", err)
		case err != nil:
			c.fail(err, "%v", err)
			return exitFailed
		}
		defer st.close()
		ctx, stop := listen().until(ctx)
		defer stop()
		ctx, cancel := context.WithTimeout(ctx, slowed(demoTime))
		defer cancel()
		s := &show{printer: c.printer(), stage: st, clock: clock.System(), run: "demo-" + strings.ToLower(rand.Text()[:5])}
		if c.asJSON {
			s.w = io.Discard
		}
		exit := s.all(ctx)
		if c.asJSON {
			s.result.OK = exit == exitOK
			if exit != exitOK { // the failure's text becomes the field
				c.failSilently(nil, cmp.Or(s.result.Error, "an act failed"))
				s.result.Error = ""
			}
			c.result = s.result
		}
		return exit
	}
}

// showResult is the JSON form of the result.
type showResult struct {
	OK     bool        `json:"ok"`
	TookMS int64       `json:"took_ms"`
	Acts   []actResult `json:"acts"`
	Error  string      `json:"error,omitempty"`
}

type actResult struct {
	Title string `json:"title"`
	Error string `json:"error"`
}

// wrong records an error that belongs to no act.
func (s *show) wrong(err error) {
	s.bad("%s", withoutPrefix(err))
	s.result.Error = withoutPrefix(err)
}

// setStage makes a stage, on which a client can be made.
func setStage(nodes nodeList, prefix string) (*stage, error) {
	st, err := findStage(nodes)
	if err != nil {
		return nil, err
	}
	st.prefix = prefix
	_, end, err := st.client("")
	if err != nil {
		st.close()
		return nil, err
	}
	end()
	return st, nil
}

// findStage makes a stage of the given nodes, or of three nodes in this process.
func findStage(nodes nodeList) (*stage, error) {
	if len(nodes.urls) == 0 {
		return ownStage()
	}
	st, err := givenStage(nodes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", redlock.ErrInvalid, err)
	}
	return st, nil
}

// all plays every act, also after one that failed.
func (s *show) all(ctx context.Context) int {
	began := s.clock.Now()
	s.result.Acts = []actResult{}
	s.open()
	if err := s.healthy(ctx); err != nil {
		s.wrong(err) // every act would wait for nodes that are down
		s.line("")
		return exitFailed
	}
	failed := s.playAll(ctx)
	s.line("")
	if err := s.clean(ctx); err != nil {
		failed++
		s.wrong(err)
	}
	took := s.clock.Now().Sub(began)
	s.result.TookMS = took.Milliseconds()
	var sig signalError
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &sig):
		return exitSignal + int(sig.Signal)
	case cause != nil:
		s.result.Error = "it took more than " + demoTime.String()
		s.line(" %s\n", s.in(red, "It took more than "+demoTime.String()+"."))
		return exitFailed
	case failed > 0:
		s.line(" %s\n", s.in(red, "A part failed."))
		return exitFailed
	}
	s.line(" %s %s\n", s.in(green, "All went well."), s.in(faint, short(took)))
	return exitOK
}

// playAll plays the acts until ctx ends, and counts those that failed.
func (s *show) playAll(ctx context.Context) (failed int) {
	for i, a := range s.acts() {
		if ctx.Err() != nil {
			break
		}
		s.title(i+1, a.title, a.point)
		result := actResult{Title: a.title}
		if err := a.play(ctx); err != nil {
			failed++
			s.bad("%s", withoutPrefix(err))
			result.Error = withoutPrefix(err)
		}
		s.result.Acts = append(s.result.Acts, result)
	}
	return failed
}

func (s *show) open() {
	n := len(s.stage.configs)
	what := fmt.Sprintf("%d Redis nodes inside this process", n)
	if s.stage.masters == nil {
		what = fmt.Sprintf("your %d Redis nodes", n)
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

// name returns a lock name of this run. The names are checked for keys that are left at the end.
func (s *show) name(of string) string {
	name := s.run + "/" + of
	s.names = append(s.names, name)
	return name
}

func (s *show) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowed(3*time.Second))
	defer cancel()
	if err := s.stage.leftovers(ctx, s.names); err != nil {
		return err
	}
	s.good("no key is left on any node")
	return nil
}
