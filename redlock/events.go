package redlock

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// eventsMost bounds how far hooks may fall behind.
const eventsMost = 4096

// events runs hooks and writes the log on a goroutine of its own, which lives while
// there is something to run. Nobody waits for it: a hook may block or call back
// (docs/hazards.md H105).
type events struct {
	trace    Trace
	logger   *slog.Logger // may be nil
	standing standingLog

	mu      sync.Mutex // guards what follows
	queue   []func()
	running bool
	dropped int
}

func newEvents(traces []*Trace, logger *slog.Logger, nodes int) *events {
	if len(traces) == 0 && logger == nil {
		return nil
	}
	ev := &events{logger: logger}
	ev.standing.out = make([]atomic.Bool, nodes)
	for _, t := range traces {
		ev.trace.add(t)
	}
	return ev
}

// post queues a call of a hook, if it is set.
func post[E any](ev *events, hook func(E), e E) {
	if hook != nil {
		ev.run(func() { hook(e) })
	}
}

func (ev *events) warn(msg string, args ...any) {
	if ev.logger != nil {
		ev.run(func() { ev.logger.Warn("redlock: "+msg, args...) })
	}
}

func (ev *events) info(msg string, args ...any) {
	if ev.logger != nil {
		ev.run(func() { ev.logger.Info("redlock: "+msg, args...) })
	}
}

func (ev *events) run(f func()) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if len(ev.queue) >= eventsMost {
		ev.dropped++
		return
	}
	ev.queue = append(ev.queue, f)
	if !ev.running {
		ev.running = true
		go ev.drain()
	}
}

// drain runs the calls one after the other, until there is none.
func (ev *events) drain() {
	over := false
	defer func() {
		if !over {
			go ev.drain() // a hook ended this goroutine: runtime.Goexit, as by t.FailNow
		}
	}()
	for f := ev.next(); f != nil; f = ev.next() {
		ev.guard(f)
	}
	over = true
}

// next takes the next call off the queue; nil ends the draining.
func (ev *events) next() func() {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if n := ev.dropped; n > 0 {
		ev.dropped = 0
		return func() { ev.report("hooks fell behind", "dropped", n) }
	}
	if len(ev.queue) == 0 {
		ev.queue, ev.running = nil, false
		return nil
	}
	f := ev.queue[0]
	ev.queue[0] = nil
	ev.queue = ev.queue[1:]
	return f
}

func (ev *events) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			ev.report("a hook panicked", "panic", fmt.Sprint(p))
		}
	}()
	f()
}

func (ev *events) report(msg string, args ...any) {
	defer func() { _ = recover() }() // of the logger itself: there is nobody left to tell
	logger := ev.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Error("redlock: "+msg, args...)
}
