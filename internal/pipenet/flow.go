package pipenet

import (
	"bytes"
	"cmp"
	"os"
	"sync"
	"time"
)

// flow is one direction of a pair.
type flow struct {
	// mu guards everything below; nothing under it blocks but moved.Wait.
	mu    sync.Mutex
	moved sync.Cond // broadcast at every change: bytes, ends, deadlines
	data  bytes.Buffer

	late   time.Duration // how long bytes are on their way
	flying []batch       // bytes on their way, the first to arrive first

	closed error // the reader's end is closed: what it gets, whatever is left
	ended  error // nothing comes any more: what the reader gets after the last byte
	broken error // what the writer gets; nil while it may write

	reading, writing deadline
}

// batch is what one put has sent, with the instant at which it arrives.
type batch struct {
	bytes []byte
	due   time.Time
}

type deadline struct {
	timer  *time.Timer
	passed bool
}

func newFlow() *flow {
	f := &flow{}
	f.moved.L = &f.mu
	return f
}

func (f *flow) take(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.closed != nil:
			return 0, f.closed
		case f.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case f.data.Len() > 0 || len(p) == 0:
			f.moved.Broadcast()
			n, _ := f.data.Read(p)
			return n, nil
		case f.ended != nil && len(f.flying) == 0:
			return 0, f.ended
		}
		f.moved.Wait()
	}
}

func (f *flow) put(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.broken != nil:
			return n, f.broken
		case f.writing.passed:
			return n, os.ErrDeadlineExceeded
		case len(p) == 0:
			return n, nil
		}
		if room := min(len(p), Buffer-f.held()); room > 0 {
			f.send(p[:room])
			n, p = n+room, p[room:]
			f.moved.Broadcast()
			continue
		}
		f.moved.Wait()
	}
}

// send puts bytes on their way; under mu.
func (f *flow) send(p []byte) {
	if f.late == 0 {
		f.data.Write(p)
		return
	}
	f.flying = append(f.flying, batch{bytes.Clone(p), now().Add(f.late)})
	time.AfterFunc(f.late, f.arrive)
}

// arrive lets the reader have the bytes that are due. Each batch has a timer, and it arrives with
// its own or with that of a later one.
func (f *flow) arrive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.flying) > 0 && !f.flying[0].due.After(now()) {
		f.data.Write(f.flying[0].bytes)
		f.flying = f.flying[1:]
	}
	f.moved.Broadcast()
}

// delay makes all bytes from now on arrive later by d. Only the first call counts, so that bytes
// stay in order.
func (f *flow) delay(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = cmp.Or(f.late, d)
}

// arriving returns the time until the last byte on its way arrives.
func (f *flow) arriving() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.flying) == 0 {
		return 0
	}
	return f.flying[len(f.flying)-1].due.Sub(now())
}

// finish ends the flow from the writer's side. Bytes in flight are kept. Only the first reason
// counts.
func (f *flow) finish(broken, ended error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken, f.ended = cmp.Or(f.broken, broken), cmp.Or(f.ended, ended)
	f.writing.stop()
	f.moved.Broadcast()
}

// abandon ends the flow from the reader's side. Bytes in flight are lost.
func (f *flow) abandon(closed, broken error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.broken = cmp.Or(f.closed, closed), cmp.Or(f.broken, broken)
	f.data.Reset()
	f.flying = nil
	f.reading.stop()
	f.moved.Broadcast()
}

func (f *flow) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held()
}

// held returns the number of bytes that the reader has not read; under mu.
func (f *flow) held() int {
	n := f.data.Len()
	for _, b := range f.flying {
		n += len(b.bytes)
	}
	return n
}

// setDeadline sets one of the two deadlines of the flow. The timer's function checks that its timer
// is still the current one, because a timer that was stopped too late may still fire.
func (f *flow) setDeadline(d *deadline, t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t) //nolint:forbidigo // a net.Conn's deadline is a time.Time
	if left <= 0 {
		d.passed = true
		f.moved.Broadcast()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if d.timer == timer {
			d.passed = true
			f.moved.Broadcast()
		}
	})
	d.timer = timer
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// now returns the time, which is the bubble's inside a bubble.
func now() time.Time { return time.Now() } //nolint:forbidigo // bytes arrive by the time of the reader's timers
