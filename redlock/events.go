package redlock

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// maxQueued bounds the queued calls of hooks and log entries.
const maxQueued = 4096

// dispatcher runs hooks and writes the log on a goroutine of its own, which exists while calls are
// queued. Locks do not wait for it, so a hook may block or call the library (docs/dev/hazards.md H105).
type dispatcher struct {
	trace  Trace
	logger *slog.Logger // may be nil
	state  stateLog

	mu      sync.Mutex // guards the fields below
	queue   []func()
	running bool
	dropped int
}

func newDispatcher(traces []*Trace, logger *slog.Logger, nodes int) *dispatcher {
	if len(traces) == 0 && logger == nil {
		return nil
	}
	ev := &dispatcher{logger: logger}
	ev.state.notVoting = make([]atomic.Bool, nodes)
	for _, t := range traces {
		ev.trace.add(t)
	}
	return ev
}

// post queues a call of hook unless it is nil.
func post[E any](ev *dispatcher, hook func(E), e E) {
	if hook != nil {
		ev.run(func() { hook(e) })
	}
}

func (d *dispatcher) warn(msg string, args ...any) {
	if d.logger != nil {
		d.run(func() { d.logger.Warn("redlock: "+msg, args...) })
	}
}

func (d *dispatcher) info(msg string, args ...any) {
	if d.logger != nil {
		d.run(func() { d.logger.Info("redlock: "+msg, args...) })
	}
}

func (d *dispatcher) run(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) >= maxQueued {
		d.dropped++
		return
	}
	d.queue = append(d.queue, f)
	if !d.running {
		d.running = true
		go d.drain()
	}
}

// drain runs the queued calls one after another until the queue is empty.
func (d *dispatcher) drain() {
	over := false
	defer func() {
		if !over {
			// A hook ended this goroutine by runtime.Goexit, as t.FailNow does.
			go d.drain()
		}
	}()
	for f := d.next(); f != nil; f = d.next() {
		d.callSafely(f)
	}
	over = true
}

// next removes the next call from the queue. It returns nil if there is none; drain then ends.
func (d *dispatcher) next() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.dropped; n > 0 {
		d.dropped = 0
		return func() { d.report("hooks fell behind", "dropped", n) }
	}
	if len(d.queue) == 0 {
		d.queue, d.running = nil, false
		return nil
	}
	f := d.queue[0]
	d.queue[0] = nil
	d.queue = d.queue[1:]
	return f
}

func (d *dispatcher) callSafely(f func()) {
	defer func() {
		if p := recover(); p != nil {
			d.report("a hook panicked", "panic", fmt.Sprint(p))
		}
	}()
	f()
}

func (d *dispatcher) report(msg string, args ...any) {
	defer func() { _ = recover() }() // a panic of the logger itself cannot be reported
	logger := d.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Error("redlock: "+msg, args...)
}
