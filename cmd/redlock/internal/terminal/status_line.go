package terminal

import (
	"fmt"
	"os"
	"sync"
)

// Line is one line on a terminal that is rewritten as work proceeds and is erased at the
// end. A nil statusLine shows nothing; it is used if standard error is not a terminal. In the
// background the line is not written, because it would overwrite the output of the foreground
// job.
type Line struct {
	out  *os.File
	term *Terminal

	mu    sync.Mutex // guards the fields below, and the writes to out
	on    bool       // between begin and end
	shown bool
}

// NewLine makes a line on a terminal. It returns nil if out is none.
func NewLine(out *os.File) *Line {
	if !IsTerminal(out) {
		return nil
	}
	return &Line{out: out, term: Open(out)}
}

// Begin turns the line on, and reports whether it did.
func (l *Line) Begin() bool {
	if l == nil || !l.term.ours() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = true
	return true
}

// Show rewrites the line. Before begin and after end it does nothing, because hooks may be called
// at any time.
func (l *Line) Show(format string, args ...any) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on || !l.term.ours() {
		return
	}
	text := []rune(fmt.Sprintf(format, args...))
	if width, _, ok := WindowSize(l.out); ok {
		text = text[:min(len(text), width-1)] // a wrapped line can't be erased
	}
	l.shown = true
	_, _ = fmt.Fprintf(l.out, "\r%s\x1b[K", string(text)) // a failed write is ignored: the line is only information
}

// End erases the line. It may be called more than once.
func (l *Line) End() {
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
