package main

import (
	"fmt"
	"os"
	"sync"
)

// statusLine is one line on a terminal that is written over as things go on, and is gone in the
// end. A nil one shows nothing: so it is where standard error is no terminal, and in
// the background, where it would write over what somebody else does there.
type statusLine struct {
	out  *os.File
	term *terminal

	mu    sync.Mutex // guards what follows, and what is written
	on    bool       // between begin and end
	shown bool
}

func newStatusLine(out *os.File) *statusLine {
	if !isTerminal(out) {
		return nil
	}
	return &statusLine{out: out, term: openTerminal(out)}
}

// begin reports whether there is a line from now on.
func (l *statusLine) begin() bool {
	if l == nil || !l.term.ours() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = true
	return true
}

// show rewrites the line. Before begin and after end it does nothing: hooks come when
// they come.
func (l *statusLine) show(format string, args ...any) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on || !l.term.ours() {
		return
	}
	text := []rune(masked(fmt.Sprintf(format, args...)))
	if width, _, ok := windowSize(l.out); ok {
		text = text[:min(len(text), width-1)] // what wraps can't be taken back
	}
	l.shown = true
	_, _ = fmt.Fprintf(l.out, "\r%s\x1b[K", string(text)) // nobody who could read it is no fault
}

// end takes the line away. It may be called more than once.
func (l *statusLine) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown && l.term.ours() {
		_, _ = fmt.Fprint(l.out, "\r\x1b[K")
	}
	l.on, l.shown = false, false
}
