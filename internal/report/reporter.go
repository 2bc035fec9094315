package report

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/background"
)

// maxQueued bounds the queued calls of hooks, and the queued lines.
const maxQueued = 4096

// Reporter runs hooks and writes lines of the log, each one after another on a goroutine that exists while there are
// some. A hook may block or panic (docs/dev/hazards.md H105). What has no room is dropped and counted. Its methods are
// safe for concurrent use.
type Reporter struct {
	logger  *slog.Logger // may be nil
	hooks   *background.Queue[func()]
	lines   *background.Queue[func()]
	dropped atomic.Int64 // since the last line about that
}

// New returns a Reporter. Without a logger it writes no lines but those about hooks, to the default logger.
func New(logger *slog.Logger) *Reporter {
	r := &Reporter{logger: logger}
	r.hooks, r.lines = background.NewQueue(maxQueued, r.call), background.NewQueue(maxQueued, r.call)
	return r
}

// Run queues a call of a hook.
func (r *Reporter) Run(hook func()) { r.add(r.hooks, hook) }

// Warn queues a line.
func (r *Reporter) Warn(msg string, args ...any) { r.line((*slog.Logger).Warn, msg, args) }

// Info queues a line.
func (r *Reporter) Info(msg string, args ...any) { r.line((*slog.Logger).Info, msg, args) }

func (r *Reporter) line(write func(l *slog.Logger, msg string, args ...any), msg string, args []any) {
	if r.logger != nil {
		r.add(r.lines, func() { write(r.logger, "redlock: "+msg, args...) })
	}
}

// JoinLines waits until all lines are written, but no longer than limit.
func (r *Reporter) JoinLines(c clock.Clock, limit time.Duration) { r.lines.Join(c, limit) }

func (r *Reporter) add(to *background.Queue[func()], f func()) {
	if !to.Add(f) {
		r.dropped.Add(1)
	}
}

// call runs what was queued.
func (r *Reporter) call(f func()) {
	defer func() {
		if p := recover(); p != nil {
			r.fault("a hook panicked", "panic", fmt.Sprint(p))
		}
	}()
	if n := r.dropped.Swap(0); n > 0 {
		r.fault("hooks fell behind", "dropped", n)
	}
	f()
}

// fault writes a line about hooks at once.
func (r *Reporter) fault(msg string, args ...any) {
	defer func() { _ = recover() }() // a panic of the logger itself cannot be reported
	logger := r.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Error("redlock: "+msg, args...)
}
