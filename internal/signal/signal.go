// Package signal has the two ways in which goroutines of this module wake each other.
package signal

// Signal wakes one goroutine, which receives from it. It holds one value: signals that are set
// before the goroutine receives count as one. The goroutine looks at the state behind the signal
// after it has received, so it misses no change. Setting a nil Signal does nothing. A Signal is safe
// for concurrent use.
type Signal chan struct{}

// New returns a signal that is not set.
func New() Signal { return make(Signal, 1) }

// Set sets the signal. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Clear discards the signal if it is set.
func (s Signal) Clear() {
	select {
	case <-s:
	default:
	}
}

// Broadcast wakes all goroutines that wait. The mutex that guards the state they wait for guards the
// Broadcast too. The zero Broadcast is ready for use.
type Broadcast struct{ next chan struct{} }

// Next returns a channel that the next Wake closes. A caller that looks at the state under the same
// lock misses no change.
func (b *Broadcast) Next() <-chan struct{} {
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Wake wakes all goroutines that wait for a channel of Next. If there is none it does nothing.
func (b *Broadcast) Wake() {
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
