//go:build unix && !aix && !solaris

package main

import (
	"bufio"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// reaperMode is how this binary is called to be the keeper; see keeper. It reads the
// group, then answers to its questions, then dismissal.
const reaperMode = "__keeper"

const (
	question    = "left?"
	doneMessage = "over"
)

// runReaper is the keeper's life.
func runReaper(c *invocation) int {
	// Nothing but SIGKILL ends it: not `pkill redlock`, nor SIGPIPE when it asks
	// somebody who has died, which is the very moment it is there for.
	signal.Ignore()
	reaper{in: c.stdin, out: c.stdout, clock: clock.System(), kill: group.kill}.watch()
	return exitOK
}

// reaper is what a keeper has to do with, for tests.
type reaper struct {
	in    io.Reader
	out   io.Writer
	clock clock.Clock
	kill  func(group)
}

// watch returns when it was dismissed, or has killed the group.
func (k reaper) watch() {
	lines := k.lines()
	id, err := strconv.Atoi(<-lines)
	if err != nil || id <= 1 { // no group came, so that the command has not begun
		return
	}
	asked, open := k.ask(), true // which says at the same time that the group is known
	end := asked.Add(startTimeout)
	for {
		left := end.Sub(k.clock.Now())
		if left <= 0 {
			break
		}
		again, stop := clock.After(k.clock, sleepAtMost(left))
		select {
		case <-again:
			if !open {
				asked, open = k.ask(), true
			}
		case line := <-lines: // "" at the end of the input
			if line == doneMessage {
				stop()
				return
			}
			end, open = asked.Add(allowed(line)), false
		}
		stop()
	}
	k.kill(group(id))
}

// allowed is how long redlock lets the command run. What is no answer allows nothing.
func allowed(line string) time.Duration {
	ns, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

func (k reaper) ask() clock.Instant {
	now := k.clock.Now()
	_, _ = fmt.Fprintln(k.out, question) // an error is followed by the end of the input
	return now
}

// lines reads until the end of the input, and so to the end of redlock: nobody else
// has the other end of that pipe.
func (k reaper) lines() <-chan string {
	lines := make(chan string)
	go func() { // ends with the process: it has no other to be joined by
		defer close(lines)
		for s := bufio.NewScanner(k.in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}
