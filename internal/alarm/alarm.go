package alarm

import (
	"math/bits"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Handler is what an alarm wakes.
type Handler interface {
	// Fire tells that a's deadline has passed. It is called once for each time
	// that a was set, after a is no longer set, on a goroutine that rings one
	// alarm after the other. So it must not block; it may set and clear
	// alarms, a too.
	Fire(a *Alarm)
}

// Alarm is one deadline, to be embedded in what it wakes. Its zero value is not
// set. It must not be copied while set, nor be set in two queues at a time;
// its queue's mutex guards it.
type Alarm struct {
	at         clock.Instant
	handler    Handler
	heapIndex  int32 // in the heap, from 1; 0 is not set
	slackClass int8  // of its lag
}

// A lag is kept as its class c: the longest second/2^c that is no longer than
// the lag. That makes the smallest lag of all alarms a matter of eleven
// counters, at the price of waking up to twice as often as needed.
const (
	classes  = 11
	minSlack = time.Millisecond
	maxSlack = time.Second
)

// classOf returns the class of a lag, which it takes as 1 ms or 1 s when it is
// outside of these: the least c with 2^c >= maxSlack/lag.
func classOf(lag time.Duration) int8 {
	lag = min(max(lag, minSlack), maxSlack)
	return int8(bits.Len64(uint64((maxSlack - 1) / lag)))
}

// slacks counts the alarms of each class.
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

// least returns the smallest lag counted, maxSlack when there is none.
func (l *slacks) least() time.Duration {
	return maxSlack >> max(bits.Len16(l.used)-1, 0)
}

// deadlines is a heap of alarms, the earliest on top (container/heap).
type deadlines []*Alarm

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].at < h[j].at }

func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = int32(i+1), int32(j+1)
}

func (h *deadlines) Push(x any) {
	a := x.(*Alarm)
	*h = append(*h, a)
	a.heapIndex = int32(len(*h))
}

func (h *deadlines) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil // or the array keeps what it wakes alive
	*h = (*h)[:last]
	a.heapIndex = 0
	return a
}
