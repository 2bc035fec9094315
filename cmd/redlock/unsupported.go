//go:build !unix || aix || solaris

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// runFlags: run keeps a command within the time of a lock by process groups, signals, and a pipe that
// closes when a process dies. On systems without these it is not offered: a lock that its command may
// outlive does not exclude anything.
func runFlags(*pflag.FlagSet) runFunc {
	return func(_ context.Context, inv *invocation) int {
		return inv.misused("it is not available on this system, because it needs Unix process groups; `redlock acquire` and the library are")
	}
}

func runMode(*invocation, []string) (exit int, ok bool) { return 0, false }

// signalQueue receives the signals that end a wait.
type signalQueue struct{}

func listen() signalQueue { return signalQueue{} }

func (signalQueue) until(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	in := make(chan os.Signal, 1)
	signal.Notify(in, os.Interrupt)
	go func() { // ends with the process
		<-in
		cancel(signalError{syscall.SIGINT})
	}()
	return ctx, func() { cancel(nil) }
}

func (signalQueue) pending() (syscall.Signal, bool) { return 0, false }

// terminal does nothing on this system.
type terminal struct{}

func openTerminal(*os.File) *terminal { return nil }

func (*terminal) ours() bool { return false }

func isTerminal(*os.File) bool { return false }

func windowSize(*os.File) (columns, rows int, ok bool) { return 0, 0, false }
