package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
)

// Bounds of --interval: nodes have other things to do.
const (
	minInterval = 100 * time.Millisecond
	maxInterval = time.Hour
)

var errInterval = fmt.Errorf("--interval must be from %v to %v", minInterval, maxInterval)

// Flags are the flags of what can be watched.
type Flags struct {
	On       *bool
	interval *time.Duration
}

// NewFlags defines the flags.
func NewFlags(f *pflag.FlagSet) Flags {
	return Flags{
		On:       f.BoolP("watch", "w", false, "repeat the query, and show what changes"),
		interval: cli.DurationFlag(f, "interval", time.Second, "the pause between two queries, from 100ms to 1h (default: 1s)"),
	}
}

// Check returns what is wrong with the flags.
func (w Flags) Check() error {
	if *w.interval < minInterval || *w.interval > maxInterval {
		return errInterval
	}
	return nil
}

// View is the answer to a query that is repeated.
type View interface {
	// changes returns a text that differs from that of the answer before if something has changed.
	Changes() string
	Print(p *terminal.Printer)
	// object returns the form for programs. at is the time of the query; nil: the query is not repeated.
	Object(at *time.Time) any
}

// watcher repeats a query.
type watcher struct {
	c        *cli.Invocation
	interval time.Duration
	query    func(ctx context.Context) (View, error) // after an error without a view the watch ends
	show     func(View) error
	last     string // what has changed when it was shown last
}

// Run repeats a query until a signal arrives, or until the reader of the output is gone.
func Run(ctx context.Context, c *cli.Invocation, flags Flags, query func(ctx context.Context) (View, error)) int {
	w := &watcher{c: c, query: query, interval: *flags.interval}
	switch {
	case c.JSON:
		w.show = w.news(w.object)
	case c.Redraws():
		w.show = (&liveScreen{out: c.Stdout, colors: c.Printer().Colors, every: w.interval}).show
	default:
		w.show = w.news(w.block)
	}
	return w.watch(ctx)
}

// watch prints the answers.
func (w *watcher) watch(ctx context.Context) int {
	ctx, stop := cli.Listen().Until(ctx)
	defer stop()
	for tick := time.NewTicker(w.interval); ; {
		v, err := w.query(ctx)
		switch {
		case ctx.Err() != nil:
			return cli.ExitOK // the end that the user asked for
		case v == nil:
			return w.c.Refused(err)
		}
		if err := w.show(v); err != nil {
			if errors.Is(err, syscall.EPIPE) {
				w.c.Stdout.Err = nil // the reader is gone, as with head
			}
			return cli.ExitOK
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cli.ExitOK
		}
	}
}

// news prints only what differs from the last output.
func (w *watcher) news(show func(View) error) func(View) error {
	return func(v View) error {
		now := v.Changes()
		if now == w.last {
			return nil
		}
		w.last = now
		return show(v)
	}
}

func (w *watcher) object(v View) error {
	at := time.Now().UTC().Round(time.Millisecond)
	_, err := fmt.Fprintf(w.c.Stdout, "%s\n", cli.Encoded(v.Object(&at)))
	return err
}

func (w *watcher) block(v View) error {
	var b bytes.Buffer
	v.Print(&terminal.Printer{W: &b})
	b.WriteByte('\n')
	between := "  "
	if bytes.HasPrefix(b.Bytes(), []byte(" ")) {
		between = "\n" // the head of a table would not stand above its columns
	}
	_, err := fmt.Fprintf(w.c.Stdout, "%s%s%s", time.Now().Format(time.TimeOnly), between, b.Bytes())
	return err
}

// liveScreen is text on a terminal that is written over.
type liveScreen struct {
	out    *cli.Output
	colors bool
	every  time.Duration
	lines  int // lines on the screen
}

func (r *liveScreen) show(v View) error {
	var b bytes.Buffer
	p := &terminal.Printer{W: &b, Colors: r.colors}
	v.Print(p)
	p.Line("\n%s", p.In(terminal.Faint, fmt.Sprintf("every %v; Ctrl-C ends it", r.every)))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if width, rows, ok := terminal.WindowSize(r.out.File); ok {
		// Lines that wrap or scroll out of sight could not be written over.
		lines = lines[:min(len(lines), rows-1)]
		for i := range lines {
			lines[i] = clipped(lines[i], width-1)
		}
	}
	text := "\r\x1b[J" + strings.Join(lines, "\n") + "\n"
	if r.lines > 0 {
		text = fmt.Sprintf("\x1b[%dA", r.lines) + text
	}
	r.lines = len(lines)
	_, err := r.out.Write([]byte(text))
	return err
}

// clipped cuts a line to the width of the terminal. Colours take no room.
func clipped(line string, width int) string {
	var b strings.Builder
	inEscape := false
	for _, r := range line {
		switch {
		case r == '\x1b':
			inEscape = true
		case inEscape:
			inEscape = r != 'm'
		case width == 0:
			continue
		default:
			width--
		}
		b.WriteRune(r)
	}
	return b.String()
}
