//go:build unix && !aix && !solaris

package process

import (
	"bufio"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// ReaperMode is the argument that makes this binary the reaper (see Reaper). It reads the id
// of the group, then the answers to its questions, then the message that ends it.
const ReaperMode = "__reaper"

const (
	question    = "left?"
	doneMessage = "over"
)

// RunReaper is the main function of the reaper process.
func RunReaper(in io.Reader, out io.Writer) {
	// Only SIGKILL ends the reaper. `pkill redlock` must not, nor SIGPIPE when it asks a process
	// that has died: that is when it is needed.
	signal.Ignore()
	reaper{in: in, out: out, clock: clock.System(), kill: func(g Group) { (&Groups{own: g}).Kill() }}.watch()
}

// reaper is the reaper without its process, for tests.
type reaper struct {
	in    io.Reader
	out   io.Writer
	clock clock.Clock
	kill  func(Group)
}

// watch returns after it was told to end, or has killed the group.
func (k reaper) watch() {
	lines := k.lines()
	id, err := strconv.Atoi(<-lines)
	if err != nil || id <= 1 { // no group arrived, so the command has not begun
		return
	}
	asked, open := k.ask(), true // the first question also confirms that the group is known
	end := asked.Add(startTimeout)
	for {
		left := end.Sub(k.clock.Now())
		if left <= 0 {
			break
		}
		again, stop := timer.After(k.clock, Recheck(left))
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
	k.kill(Group(id))
}

// allowed returns how long the command may run, by redlock's answer. An invalid answer allows
// nothing.
func allowed(line string) time.Duration {
	ns, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

func (k reaper) ask() clock.Instant {
	now := k.clock.Now()
	_, _ = fmt.Fprintln(k.out, question) // after an error the input ends as well
	return now
}

// refreshInterval is the longest sleep between two checks of the end, because timers do not
// advance while the machine is suspended.
const refreshInterval = time.Second

// Recheck returns how long to sleep before the next check of the time left. The sleep gets
// shorter near the end, where a late check would matter.
func Recheck(left time.Duration) time.Duration {
	return min(max(left/4, 2*time.Millisecond), refreshInterval)
}

// lines reads until the end of the input. The input ends when redlock ends, because no other
// process has the other end of the pipe.
func (k reaper) lines() <-chan string {
	lines := make(chan string)
	go func() { // ends with the process
		defer close(lines)
		for s := bufio.NewScanner(k.in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}
