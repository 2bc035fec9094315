package demo

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
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/stage"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

// Subcommand returns `demo`.
func Subcommand() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:     "demo [flags]",
			Short:   "see a lock at work: votes, contenders, a failure, a takeover",
			Long:    demoAbout,
			Example: "  redlock demo",
		},
		Define: demoFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "every part succeeded"),
			cli.Ends(cli.ExitFailed, "a part failed"),
			cli.EndsMisused, cli.EndsUnwritten, cli.EndsSignal,
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
	*terminal.Printer
	stage *stage.Stage
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
	n := len(s.stage.Configs)
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

func demoFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	return func(ctx context.Context, c *cli.Invocation) int {
		if len(c.Words()) > 0 {
			return c.Misused("takes no NAME")
		}
		nodes, err := c.Nodes()
		if err != nil && (!errors.Is(err, cli.ErrNoNodes) || c.NodesGiven()) {
			return c.Misused("%v", err)
		}
		st, err := stage.Open(nodes, c.Prefix())
		switch {
		case errors.Is(err, redlock.ErrInvalid):
			return c.Misused("%v", err)
		case err != nil:
			c.Fail(err, "%v", err)
			return cli.ExitFailed
		}
		defer st.Close()
		ctx, stop := cli.Listen().Until(ctx)
		defer stop()
		ctx, cancel := context.WithTimeout(ctx, cli.Slowed(demoTime))
		defer cancel()
		s := &show{Printer: c.Printer(), stage: st, clock: clock.System(), run: "demo-" + strings.ToLower(rand.Text()[:5])}
		if c.JSON {
			s.W = io.Discard
		}
		exit := s.all(ctx)
		if c.JSON {
			s.result.OK = exit == cli.ExitOK
			if exit != cli.ExitOK { // the failure's text becomes the field
				c.FailSilently(nil, cmp.Or(s.result.Error, "an act failed"))
				s.result.Error = ""
			}
			c.Result = s.result
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
	s.Bad("%s", cli.WithoutPrefix(err))
	s.result.Error = cli.WithoutPrefix(err)
}

// all plays every act, also after one that failed.
func (s *show) all(ctx context.Context) int {
	began := s.clock.Now()
	s.result.Acts = []actResult{}
	s.open()
	var sig cli.SignalError
	if err := s.healthy(ctx); err != nil {
		s.wrong(err) // every act would wait for nodes that are down
		s.Line("")
		if errors.As(context.Cause(ctx), &sig) {
			return cli.ExitSignal + int(sig.Signal)
		}
		return cli.ExitFailed
	}
	failed := s.playAll(ctx)
	s.Line("")
	if err := s.clean(ctx); err != nil {
		failed++
		s.wrong(err)
	}
	took := s.clock.Now().Sub(began)
	s.result.TookMS = took.Milliseconds()
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &sig):
		return cli.ExitSignal + int(sig.Signal)
	case cause != nil:
		s.result.Error = "it took more than " + demoTime.String()
		s.Line(" %s\n", s.In(terminal.Red, "It took more than "+demoTime.String()+"."))
		return cli.ExitFailed
	case failed > 0:
		s.Line(" %s\n", s.In(terminal.Red, "A part failed."))
		return cli.ExitFailed
	}
	s.Line(" %s %s\n", s.In(terminal.Green, "All went well."), s.In(terminal.Faint, terminal.Short(took)))
	return cli.ExitOK
}

// playAll plays the acts until ctx ends, and counts those that failed.
func (s *show) playAll(ctx context.Context) (failed int) {
	for i, a := range s.acts() {
		if ctx.Err() != nil {
			break
		}
		s.Title(i+1, a.title, a.point)
		result := actResult{Title: a.title}
		if err := a.play(ctx); err != nil {
			failed++
			s.Bad("%s", cli.WithoutPrefix(err))
			result.Error = cli.WithoutPrefix(err)
		}
		s.result.Acts = append(s.result.Acts, result)
	}
	return failed
}

func (s *show) open() {
	n := len(s.stage.Configs)
	what := fmt.Sprintf("%d Redis nodes inside this process", n)
	if !s.stage.Embedded() {
		what = fmt.Sprintf("your %d Redis nodes", n)
	}
	s.Line("\n %s  %s", s.In(terminal.Bold, "redlock demo"), s.In(terminal.Faint, "on "+what))
	for _, cfg := range s.stage.Configs {
		s.Line("    %s", s.In(terminal.Faint, cfg.String()))
	}
}

func (s *show) healthy(ctx context.Context) error {
	l, end, err := s.stage.Client("")
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.Slowed(3*time.Second))
	defer cancel()
	if err := s.stage.Leftovers(ctx, s.names); err != nil {
		return err
	}
	s.Good("no key is left on any node")
	return nil
}
