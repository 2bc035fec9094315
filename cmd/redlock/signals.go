//go:build unix && !aix && !solaris

package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// endSignals are the signals that ask a program to end.
var endSignals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// others are those that a running command is sent on besides.
var others = []syscall.Signal{
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT,
}

// signalQueue receives this process's signals from listen to the end, without a gap in
// which one would kill it and leave the lock to its TTL.
type signalQueue chan os.Signal

func listen() signalQueue {
	in := make(signalQueue, 16)
	in.add(endSignals)
	// A reader of standard error that has gone must not end this process, and with it
	// the command. Ignoring SIGPIPE instead would make the command ignore it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return in
}

// add leaves alone what was ignored when this process began (nohup, and a shell's
// background jobs): the command is to ignore it as well, and inherits just that.
func (in signalQueue) add(sigs []syscall.Signal) {
	for _, s := range sigs {
		if !signal.Ignored(s) {
			signal.Notify(in, s)
		}
	}
}

// until returns a context that ends at the first signal with signalError as its
// cause. Signals that come after stop wait in the inbox.
func (in signalQueue) until(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-in:
			cancel(signalError{s.(syscall.Signal)}) // on Unix there is no other type
		case <-over:
		}
	})
	return ctx, func() {
		close(over)
		wg.Wait()
		cancel(nil)
	}
}

// pending is a signal that has come already, and is taken out of the inbox.
func (in signalQueue) pending() (s syscall.Signal, ok bool) {
	select {
	case got := <-in:
		return got.(syscall.Signal), true
	default:
		return 0, false
	}
}
