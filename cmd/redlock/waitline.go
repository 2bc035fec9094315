//go:build unix && !aix && !solaris

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/go-redlock/redlock"
)

// waitLine is one line on a terminal that says who holds the lock, for how long, while
// redlock waits for it. It is rewritten with each attempt that is refused, which is about
// once a second, and is gone when the wait is over. A nil one shows nothing: so it is
// where standard error is no terminal, and in the background, where it would write over
// what somebody else does there.
type waitLine struct {
	out  *os.File
	term *terminal
	name string

	mu    sync.Mutex // guards what follows, and what is written
	shown bool
	until time.Time // zero before the wait and after it
}

func newWaitLine(stderr *os.File, name string) *waitLine {
	if !isTerminal(stderr) {
		return nil
	}
	return &waitLine{out: stderr, term: openTerminal(stderr), name: name}
}

// options has a Locker tell the line of attempts.
func (w *waitLine) options() []redlock.Option {
	if w == nil {
		return nil
	}
	return []redlock.Option{redlock.WithTrace(&redlock.Trace{
		Waiting: func(e redlock.WaitingEvent) { w.show(e.Err) },
	})}
}

// begin shows the line, with why the first attempt failed, and reports whether there is
// one.
func (w *waitLine) begin(wait time.Duration, err error) bool {
	if w == nil || !w.term.ours() {
		return false
	}
	w.mu.Lock()
	w.until = time.Now().Add(wait)
	w.mu.Unlock()
	w.show(err)
	return true
}

// show rewrites the line. Hooks come when they come: after the end it does nothing.
func (w *waitLine) show(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until.IsZero() || !w.term.ours() {
		return
	}
	left := time.Until(w.until).Round(time.Second)
	text := []rune(fmt.Sprintf("redlock: waiting %v at most for %s: %s", max(left, 0), w.name, strings.ReplaceAll(inShort(err), "redlock: ", "")))
	if size, err := unix.IoctlGetWinsize(int(w.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 1 {
		text = text[:min(len(text), int(size.Col)-1)] // what wraps can't be taken back
	}
	w.shown = true
	_, _ = fmt.Fprintf(w.out, "\r%s\x1b[K", string(text)) // nobody who could read it is no fault
}

// end takes the line away. It may be called more than once.
func (w *waitLine) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown && w.term.ours() {
		_, _ = fmt.Fprint(w.out, "\r\x1b[K")
	}
	w.shown, w.until = false, time.Time{}
}
