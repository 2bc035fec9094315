package pool

import (
	"context"
	"math/rand/v2"
	"time"
)

// A connection that ended within minLife counts as a dial that failed: a server may accept
// connections only to drop them, which costs more than a dial that is refused. After such a
// connection the pause may grow to minLife/2 at least, whatever Config.RedialMax says.
const minLife = time.Second

// backoff is the pause between dials in a row. It doubles from Config.RedialMin to
// Config.RedialMax, with jitter.
type backoff struct {
	cfg       *Config
	next, max time.Duration
}

func newBackoff(cfg *Config) *backoff {
	b := &backoff{cfg: cfg}
	b.reset()
	return b
}

func (b *backoff) reset() { b.next, b.max = b.cfg.RedialMin, b.cfg.RedialMax }

// ended notes for how long a connection lived, and reports whether that was long enough for
// the pause to begin anew.
func (b *backoff) ended(lived time.Duration) (well bool) {
	if lived > max(minLife, b.cfg.RedialMax) {
		b.reset()
		return true
	}
	b.max = max(minLife/2, b.cfg.RedialMax)
	return false
}

// violated notes that a connection ended because its peer broke the bounds on replies: the next
// is likely to end in the same way. The pause may grow to half a minute, and begins anew only
// after a connection that lived for longer.
func (b *backoff) violated(lived time.Duration) {
	if lived > refusedPause {
		b.reset()
	}
	b.max = max(refusedPause, b.cfg.RedialMax)
}

// pause waits before the next dial, or until ctx is done.
func (b *backoff) pause(ctx context.Context) {
	pause(ctx, b.cfg.Clock, b.next/2+rand.N(b.next/2+1))
	b.next = min(2*b.next, b.max)
}
