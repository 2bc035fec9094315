//go:build !unix || aix || solaris

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals receives the signals that end a wait.
type Signals struct{}

// Listen does nothing: Until receives the signals.
func Listen() Signals { return Signals{} }

// Until returns a context that an interrupt ends, with a SignalError as its cause.
func (Signals) Until(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	in := make(chan os.Signal, 1)
	signal.Notify(in, os.Interrupt)
	go func() { // ends with the process
		<-in
		cancel(SignalError{syscall.SIGINT})
	}()
	return ctx, func() { cancel(nil) }
}

// Pending reports that no signal has arrived.
func (Signals) Pending() (syscall.Signal, bool) { return 0, false }
