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

	closed error // the reader's end is closed: what it gets, whatever is left
	ended  error // nothing comes any more: what the reader gets after the last byte
	broken error // what the writer gets; nil while it may write

	reading, writing deadline
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
		case f.ended != nil:
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
		if room := min(len(p), Buffer-f.data.Len()); room > 0 {
			f.data.Write(p[:room])
			n, p = n+room, p[room:]
			f.moved.Broadcast()
			continue
		}
		f.moved.Wait()
	}
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
	f.reading.stop()
	f.moved.Broadcast()
}

func (f *flow) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.data.Len()
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
