package timer

import "github.com/quorumlock/go-redlock/clock"

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
	at        clock.Instant
	handler   Handler
	heapIndex int32 // in the heap, from 1; 0: not set
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
