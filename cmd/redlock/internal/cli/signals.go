//go:build unix && !aix && !solaris

package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// EndSignals are the signals that ask a program to end.
var EndSignals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// Signals receives this process's signals from Listen to the end. A gap would let a signal kill
// the process and leave the lock to its TTL.
type Signals chan os.Signal

// Listen begins to receive the signals that end a program.
func Listen() Signals {
	in := make(Signals, 16)
	in.Add(EndSignals)
	// If the reader of standard error is gone, SIGPIPE must not end this process and with it the
	// command. If SIGPIPE were ignored, the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return in
}

// Add receives more signals. It leaves signals alone that were ignored when this process began, as
// by nohup or in a background job of a shell: the command inherits that they are ignored.
func (in Signals) Add(sigs []syscall.Signal) {
	for _, s := range sigs {
		if !signal.Ignored(s) {
			signal.Notify(in, s)
		}
	}
}

// Until returns a context that the first signal ends, with a SignalError as its cause. Signals that
// arrive after stop remain in the queue.
func (in Signals) Until(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-in:
			cancel(SignalError{s.(syscall.Signal)}) // on Unix there is no other type
		case <-over:
		}
	})
	return ctx, func() {
		close(over)
		wg.Wait()
		cancel(nil)
	}
}

// Pending removes and returns a signal that has already arrived.
func (in Signals) Pending() (s syscall.Signal, ok bool) {
	select {
	case got := <-in:
		return got.(syscall.Signal), true
	default:
		return 0, false
	}
}
