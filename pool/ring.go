package pool

import "github.com/quorumlock/go-redlock/pool/wire"

// ring is a queue of commands that grows as needed and, once it has, costs no
// allocation. The zero value is empty.
type ring struct {
	slots []*wire.Command
	head  int
	size  int
}

func (r *ring) len() int { return r.size }

func (r *ring) push(c *wire.Command) {
	if r.size == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.size)%len(r.slots)] = c
	r.size++
}

func (r *ring) peek() *wire.Command { return r.slots[r.head] }

func (r *ring) pop() *wire.Command {
	c := r.slots[r.head]
	r.slots[r.head] = nil
	r.head = (r.head + 1) % len(r.slots)
	r.size--
	return c
}

// popAll empties the ring onto the end of to.
func (r *ring) popAll(to []*wire.Command) []*wire.Command {
	for r.size > 0 {
		to = append(to, r.pop())
	}
	return to
}

func (r *ring) grow() {
	bigger := make([]*wire.Command, max(16, 2*len(r.slots)))
	n := copy(bigger, r.slots[r.head:])
	copy(bigger[n:], r.slots[:r.head])
	r.slots, r.head = bigger, 0
}
