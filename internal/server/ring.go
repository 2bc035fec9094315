package server

import "github.com/quorumlock/go-redlock/internal/command"

// ring is a FIFO queue of commands. It grows as needed and never shrinks, so that it does not
// allocate once it is large enough. The number of its slots is a power of two, because a mask takes a
// fraction of the time of a division. The zero value is empty. It has no lock of its own.
type ring struct {
	slots []*command.Command
	head  int
	size  int
}

// len returns the number of commands.
func (r *ring) len() int { return r.size }

// push puts a command behind all others.
func (r *ring) push(c *command.Command) {
	if r.size == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.size)&(len(r.slots)-1)] = c
	r.size++
}

// peek returns the oldest command. The ring must not be empty.
func (r *ring) peek() *command.Command { return r.slots[r.head] }

// pop removes and returns the oldest command. The ring must not be empty.
func (r *ring) pop() *command.Command {
	c := r.slots[r.head]
	// The slot must not keep the command, and with it a lock, from being freed.
	r.slots[r.head] = nil
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.size--
	return c
}

// popAll appends all commands to the slice to, the oldest first, and empties the ring.
func (r *ring) popAll(to []*command.Command) []*command.Command {
	for r.size > 0 {
		to = append(to, r.pop())
	}
	return to
}

// grow doubles the ring, which is full, and moves its head to the first slot.
func (r *ring) grow() {
	// Doubling keeps the average cost of a push constant.
	bigger := make([]*command.Command, max(16, 2*len(r.slots)))
	// The commands from head to the end are the oldest. Those before head follow them.
	n := copy(bigger, r.slots[r.head:])
	copy(bigger[n:], r.slots[:r.head])
	r.slots, r.head = bigger, 0
}
