package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// watcher queries the status of a lock repeatedly.
type watcher struct {
	c        *invocation
	locker   *redlock.Locker
	name     string
	interval time.Duration
	show     func(*redlock.Status) error
	last     []snapshot // as shown last
}

func newWatcher(c *invocation, locker *redlock.Locker, name string, interval time.Duration, asJSON bool) *watcher {
	w := &watcher{c: c, locker: locker, name: name, interval: interval}
	switch {
	case asJSON:
		w.show = w.news(w.object)
	case c.redraws():
		w.show = (&liveScreen{out: c.stdout, colors: newPrinter(c).colors, every: interval}).show
	default:
		w.show = w.news(w.block)
	}
	return w
}

// watch prints the status until a signal arrives, or until the reader of the output is gone.
func (w *watcher) watch(ctx context.Context) int {
	ctx, stop := listen().until(ctx)
	defer stop()
	for tick := time.NewTicker(w.interval); ; {
		s, err := w.locker.Inspect(ctx, w.name)
		switch {
		case ctx.Err() != nil:
			return exitOK // the end that the user asked for
		case s == nil:
			w.c.fail(err, "%v", err)
			return refusal(err)
		}
		if err := w.show(s); err != nil {
			if errors.Is(err, syscall.EPIPE) {
				w.c.stdout.err = nil // the reader is gone, as with head
			}
			return exitOK
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return exitOK
		}
	}
}

// snapshot is the state of one node, or of the lock, as watch compares it.
type snapshot struct {
	state state // of the lock
	held  bool
	owner string
	id    string
	error bool
}

func snapshots(s *redlock.Status) []snapshot {
	all := []snapshot{{state: stateOf(s), held: s.Held, owner: s.Owner, id: s.ID}}
	for _, n := range s.Nodes {
		all = append(all, snapshot{held: n.Held, owner: n.Owner, id: n.ID, error: n.Err != nil})
	}
	return all
}

// news prints only what differs from the last output.
func (w *watcher) news(show func(*redlock.Status) error) func(*redlock.Status) error {
	return func(s *redlock.Status) error {
		now := snapshots(s)
		if slices.Equal(now, w.last) {
			return nil
		}
		w.last = now
		return show(s)
	}
}

func (w *watcher) object(s *redlock.Status) error {
	out, at := newStatusJSON(s), time.Now().UTC().Round(time.Millisecond)
	out.At = &at
	e := json.NewEncoder(w.c.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

func (w *watcher) block(s *redlock.Status) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  ", time.Now().Format(time.TimeOnly))
	printStatus(&printer{w: &b}, s)
	b.WriteByte('\n')
	_, err := w.c.stdout.Write(b.Bytes())
	return err
}

// liveScreen is text on a terminal that is written over.
type liveScreen struct {
	out    *output
	colors bool
	every  time.Duration
	lines  int // lines on the screen
}

func (r *liveScreen) show(s *redlock.Status) error {
	var b bytes.Buffer
	p := &printer{w: &b, colors: r.colors}
	printStatus(p, s)
	p.line("\n%s", p.in(faint, fmt.Sprintf("every %v; Ctrl-C ends it", r.every)))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if width, rows, ok := windowSize(r.out.file); ok {
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
