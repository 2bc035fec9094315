package timer

import (
	"math/bits"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Handler handles timers.
type Handler interface {
	// Fire is called once for each time that the timer a was set, after its deadline has passed.
	// The timer is then no longer set. One goroutine calls all handlers of a queue in sequence, so
	// Fire must not block. It may set and clear timers, including a.
	Fire(a *Timer)
}

// Timer is one deadline, to be embedded in the value that it wakes. The zero Timer is not set. A
// timer must not be copied while it is set, nor set in two queues at a time. The queue's mutex
// guards it.
type Timer struct {
	at         clock.Instant
	handler    Handler
	heapIndex  int32 // in the heap, from 1; 0: not set
	slackClass int8  // class of its slack
}

// A slack is stored as its class c. It stands for the longest time of the form 1 s / 2^c that does
// not exceed the slack. The smallest slack of all timers then needs only eleven counters, and the queue
// wakes at most twice as often as necessary.
const (
	classes  = 11
	minSlack = time.Millisecond
	maxSlack = time.Second
)

// classOf returns the class of a slack, which is clamped to 1 ms and 1 s: the least c with 2^c >=
// maxSlack/slack.
func classOf(slack time.Duration) int8 {
	slack = min(max(slack, minSlack), maxSlack)
	return int8(bits.Len64(uint64((maxSlack - 1) / slack)))
}

// slacks counts the timers of each class.
type slacks struct {
	count [classes]int
	used  uint16 // bit c is set while count[c] > 0
}

func (l *slacks) add(class int8) {
	l.count[class]++
	l.used |= 1 << class
}

func (l *slacks) remove(class int8) {
	if l.count[class]--; l.count[class] == 0 {
		l.used &^= 1 << class
	}
}

// least returns the smallest slack that is counted, or maxSlack without any.
func (l *slacks) least() time.Duration {
	return maxSlack >> max(bits.Len16(l.used)-1, 0)
}

// deadlines is a heap of timers (container/heap), the earliest on top.
type deadlines []*Timer

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].at < h[j].at }

func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = int32(i+1), int32(j+1)
}

func (h *deadlines) Push(x any) {
	a := x.(*Timer)
	*h = append(*h, a)
	a.heapIndex = int32(len(*h))
}

func (h *deadlines) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil // or the array keeps the timer's owner alive
	*h = (*h)[:last]
	a.heapIndex = 0
	return a
}
