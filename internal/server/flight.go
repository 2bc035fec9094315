package server

import (
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/command"
)

// flight has the commands that were written on one connection and have no reply yet, in their order. The writer pushes,
// and the reader takes: each is one goroutine at a time, so neither needs a mutex. It grows as needed and never shrinks, so it
// does not allocate once it is large enough.
type flight struct {
	// The writer's. The stretches are linked in their order: those that the reader has emptied come first.
	oldest, last *stretch

	first atomic.Pointer[stretch] // of the commands: the reader is there
	taken int                     // of first; the reader's
}

// stretch is a part of a flight.
type stretch struct {
	commands [stretchSize]*command.Command
	pushed   atomic.Int32 // how many of them the reader may take
	next     atomic.Pointer[stretch]
}

const stretchSize = 64

// newFlight returns an empty flight.
func newFlight() *flight {
	s := &stretch{}
	f := &flight{oldest: s, last: s}
	f.first.Store(s)
	return f
}

// push adds commands behind all others. An answer is due for them from here on, so it comes before their first byte is
// written: the reader may receive a reply before the write returns (docs/dev/hazards.md H72).
func (f *flight) push(all []*command.Command) {
	for len(all) > 0 {
		n := int(f.last.pushed.Load())
		if n == stretchSize {
			f.extend()
			n = 0
		}
		added := copy(f.last.commands[n:], all)
		f.last.pushed.Store(int32(n + added)) //nolint:gosec // at most stretchSize
		all = all[added:]
	}
}

// extend adds a stretch: one that the reader has left, or a new one.
func (f *flight) extend() {
	s := f.oldest
	if s == f.first.Load() {
		s = &stretch{}
	} else {
		f.oldest = s.next.Load()
		s.pushed.Store(0)
		s.next.Store(nil)
	}
	f.last.next.Store(s)
	f.last = s
}

// next removes and returns the oldest command, or nil if there is none.
func (f *flight) next() *command.Command {
	s := f.first.Load()
	if f.taken == stretchSize {
		if s = s.next.Load(); s == nil {
			return nil
		}
		f.first.Store(s) // from here on the writer may use the one before
		f.taken = 0
	}
	if f.taken == int(s.pushed.Load()) {
		return nil
	}
	c := s.commands[f.taken]
	s.commands[f.taken] = nil // it must not keep the command, and with it a lock, alive
	f.taken++
	return c
}
