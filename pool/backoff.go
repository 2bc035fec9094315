package pool

import (
	"context"
	"math/rand/v2"
	"time"
)

// minLife is how long a connection must live to count as a successful dial. A server may accept
// connections only to drop them, which costs more than a refused dial. So after a shorter one the
// pause may grow to at least minLife/2, even if Config.RedialMax is smaller.
const minLife = time.Second

// backoff is the pause between dials in a row. It doubles from Config.RedialMin to
// Config.RedialMax, with jitter, so that many clients of a server that returns do not dial it at
// the same moment. It needs no mutex: only the goroutine that dials uses it.
type backoff struct {
	cfg       *Config
	next, max time.Duration // the next pause before jitter, and its present bound
}

// newBackoff returns a backoff that begins at RedialMin.
func newBackoff(cfg *Config) *backoff {
	b := &backoff{cfg: cfg}
	b.reset()
	return b
}

// reset makes the next pause the shortest one again.
func (b *backoff) reset() { b.next, b.max = b.cfg.RedialMin, b.cfg.RedialMax }

// ended notes how long a connection lived. If that was long enough, it resets the pause and returns
// true.
func (b *backoff) ended(lived time.Duration) (well bool) {
	if lived > max(minLife, b.cfg.RedialMax) {
		b.reset()
		return true
	}
	b.max = max(minLife/2, b.cfg.RedialMax)
	return false
}

// violated notes that a connection ended because its peer exceeded the bounds on replies. The next
// connection is likely to end in the same way, so the pause may grow to refusedPause. Only a
// connection that lived longer than that resets it.
func (b *backoff) violated(lived time.Duration) {
	if lived > refusedPause {
		b.reset()
	}
	b.max = max(refusedPause, b.cfg.RedialMax)
}

// nextDial is what follows when a connection has ended, or could not be made.
type nextDial uint8

const (
	dialAfterPause nextDial = iota
	dialAtOnce
	noDial
)

// redial calls serve again and again, until serve returns noDial or ctx is done. serve dials and uses
// the connection until that ends.
func (b *backoff) redial(ctx context.Context, serve func(ctx context.Context) nextDial) {
	for ctx.Err() == nil {
		switch serve(ctx) {
		case noDial:
			return
		case dialAfterPause:
			b.pause(ctx)
		}
	}
}

// pause waits before the next dial, or until ctx is done. It waits for a random time between half of
// the pause and all of it.
func (b *backoff) pause(ctx context.Context) {
	pause(ctx, b.cfg.Clock, b.next/2+rand.N(b.next/2+1))
	b.next = min(2*b.next, b.max)
}
