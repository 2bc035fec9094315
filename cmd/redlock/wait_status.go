package main

import (
	"os"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
	"github.com/quorumlock/go-redlock/redlock"
)

// waitStatus says on a terminal who holds the lock, and for how long, while redlock waits
// for it. It is rewritten with each attempt that is refused, which is about once a second.
type waitStatus struct {
	*statusLine
	name  string
	until time.Time // written before the wait, and not after
}

func newWaitStatus(stderr *os.File, name string) *waitStatus {
	return &waitStatus{statusLine: newStatusLine(stderr), name: wire.Printable(name)}
}

// options has a Locker tell the line of attempts.
func (w *waitStatus) options() []redlock.Option {
	if w.statusLine == nil {
		return nil
	}
	return []redlock.Option{redlock.WithTrace(&redlock.Trace{
		Waiting: func(e redlock.WaitingEvent) { w.showAttempt(e.Err) },
	})}
}

// begin shows the line, with why the first attempt failed, and reports whether there is
// one.
func (w *waitStatus) begin(wait time.Duration, err error) bool {
	w.until = time.Now().Add(wait)
	if !w.statusLine.begin() {
		return false
	}
	w.showAttempt(err)
	return true
}

func (w *waitStatus) showAttempt(err error) {
	left := time.Until(w.until).Round(time.Second)
	w.show("redlock: waiting %v at most for %s: %s", max(left, 0), w.name, strings.ReplaceAll(inShort(err), "redlock: ", ""))
}
