package request

import (
	"fmt"
	"os"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// waitStatus shows on a terminal which client holds the lock, and for how long, while redlock
// waits for it. Each refused attempt rewrites the line, about once a second.
type waitStatus struct {
	*terminal.Line
	name  string
	until time.Time // set before the wait, constant afterwards
}

func newWaitStatus(stderr *os.File, name string) *waitStatus {
	return &waitStatus{Line: terminal.NewLine(stderr), name: oneline.Printable(name)}
}

// options returns the option that makes a Locker report its attempts to the line. Without a
// terminal there is no line and no option.
func (w *waitStatus) options() []redlock.Option {
	if w.Line == nil {
		return nil
	}
	return []redlock.Option{redlock.WithTrace(&redlock.Trace{
		Waiting: func(e redlock.WaitEvent) { w.showAttempt(e.Err) },
	})}
}

// begin shows the line with the reason why the first attempt failed. It reports whether there is
// a line.
func (w *waitStatus) begin(wait time.Duration, err error) bool {
	w.until = time.Now().Add(wait)
	if !w.Begin() {
		return false
	}
	w.showAttempt(err)
	return true
}

func (w *waitStatus) showAttempt(err error) {
	left := time.Until(w.until).Round(time.Second)
	w.Show("%s", cli.Masked(fmt.Sprintf("redlock: waiting %v at most for %s: %s", max(left, 0), w.name, cli.Brief(err))))
}
