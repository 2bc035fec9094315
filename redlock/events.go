package redlock

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// maxQueued bounds how far hooks may fall behind.
const maxQueued = 4096

// dispatcher runs hooks and writes the log on a goroutine of its own, which lives while
// there is something to run. Nobody waits for it: a hook may block or call back
// (docs/hazards.md H105).
type dispatcher struct {
	trace  Trace
	logger *slog.Logger // may be nil
	state  stateLog

	mu      sync.Mutex // guards what follows
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

// post queues a call of a hook, if it is set.
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

// drain runs the calls one after the other, until there is none.
func (d *dispatcher) drain() {
	over := false
	defer func() {
		if !over {
			go d.drain() // a hook ended this goroutine: runtime.Goexit, as by t.FailNow
		}
	}()
	for f := d.next(); f != nil; f = d.next() {
		d.callSafely(f)
	}
	over = true
}

// next takes the next call off the queue; nil ends the draining.
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
	defer func() { _ = recover() }() // of the logger itself: there is nobody left to tell
	logger := d.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Error("redlock: "+msg, args...)
}
