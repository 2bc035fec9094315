package waiting

import (
	"math/rand/v2"
	"time"
)

// Backoff is the pause between two attempts. It starts at one round trip and doubles. The jitter
// covers all of the growth, so that contenders with a split vote drift apart (docs/dev/rules.md rule
// 22).
type Backoff struct {
	Min, Max time.Duration // 0 < Min <= Max
	current  time.Duration
}

// Next returns the next pause, given the duration of the last attempt.
func (b *Backoff) Next(roundTrip time.Duration) time.Duration {
	// Half of the range is left for jitter, however long a round trip takes.
	least := max(b.Min, min(roundTrip, b.Max/2))
	if b.current > b.Max/2 {
		b.current = b.Max
	} else {
		b.current = max(2*b.current, least)
	}
	return least + rand.N(min(b.current, b.Max-least)+1)
}

// reset makes the next pause as short as the first.
func (b *Backoff) reset() { b.current = 0 }
