package transport

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/internal/timer"
)

// minLife is how long a connection must live to count as a successful dial. A server may accept
// connections only to drop them, which costs more than a refused dial. So after a shorter one the
// pause may grow to at least minLife/2, even if Settings.RedialMax is smaller.
const minLife = time.Second

// violatedPause bounds the pause behind subscriptions whose server broke the bounds on replies.
const violatedPause = 30 * time.Second

// Redial is the pause between dials in a row. It doubles from Settings.RedialMin to
// Settings.RedialMax, with jitter, so that many clients of a server that returns do not dial it at
// the same moment. It needs no mutex: only the goroutine that dials uses it.
type Redial struct {
	settings  *Settings
	next, max time.Duration // the next pause before jitter, and its present bound
}

// NewRedial returns a Redial that begins at RedialMin.
func NewRedial(s *Settings) *Redial {
	r := &Redial{settings: s}
	r.Reset()
	return r
}

// Reset makes the next pause the shortest one again.
func (r *Redial) Reset() { r.next, r.max = r.settings.RedialMin, r.settings.RedialMax }

// Ended notes how long a connection lived. If that was long enough, it resets the pause and returns
// true.
func (r *Redial) Ended(lived time.Duration) (well bool) {
	if lived > max(minLife, r.settings.RedialMax) {
		r.Reset()
		return true
	}
	r.max = max(minLife/2, r.settings.RedialMax)
	return false
}

// Violated notes that a subscription ended because its server exceeded the bounds on replies. The next
// one is likely to end in the same way, so the pause may grow to violatedPause. Only a
// connection that lived longer than that resets it.
func (r *Redial) Violated(lived time.Duration) {
	if lived > violatedPause {
		r.Reset()
	}
	r.max = max(violatedPause, r.settings.RedialMax)
}

// Next is what follows when a connection has ended, or could not be made.
type Next uint8

// The values of Next.
const (
	AfterPause Next = iota
	AtOnce
	Never
)

// Run calls serve again and again, until serve returns Never or ctx is done. serve dials and uses
// the connection until that ends.
func (r *Redial) Run(ctx context.Context, serve func(ctx context.Context) Next) {
	for ctx.Err() == nil {
		switch serve(ctx) {
		case Never:
			return
		case AfterPause:
			r.pause(ctx)
		}
	}
}

// pause waits before the next dial, or until ctx is done. It waits for a random time between half of
// the pause and all of it.
func (r *Redial) pause(ctx context.Context) {
	timer.Wait(r.settings.Clock, r.next/2+rand.N(r.next/2+1), ctx.Done())
	r.next = min(2*r.next, r.max)
}
