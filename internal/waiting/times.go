package waiting

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// A process holds a name at most this many times in a streak, and for this long, before it yields
// to other processes that wait (docs/dev/rules.md rule 21).
const (
	MaxStreak     = 16
	MaxStreakTime = 50 * time.Millisecond
)

// After maxUnbroken and more than one streak a process leaves a name to others for this time divided by unknownShare, also if it
// knows of none that waits: a node may be unable to count who listens, and a process that may not subscribe is not counted.
const (
	maxUnbroken  = 5 * MaxStreakTime
	unknownShare = 100
)

// minStreakTime bounds the streak of a process in which nobody else waits for the name.
const minStreakTime = 2 * time.Millisecond

// Clients of other libraries do not announce releases. Waiters then poll as often as redsync does,
// so that both kinds of clients get the lock equally often.
const (
	MinForeignPause = 50 * time.Millisecond
	MaxForeignPause = 250 * time.Millisecond
)

// MaxPollPause bounds the time between the polls of a subscribed waiter, because announcements may
// be lost (docs/dev/hazards.md H82).
const MaxPollPause = time.Second

const (
	// rounding is how much longer than its TTL a server may keep a key: it compares whole milliseconds.
	rounding = time.Millisecond
	// ExpiryMargin is how long after a key's expected end an attempt is made: nodes report TTLs in whole milliseconds. It is
	// longer than rounding, so that those whose turn it is go first when the keys of a minimum hold end.
	ExpiryMargin = 3 * rounding
)

// A waiter that hears of no release, and has seen within the time busy that the names changed hands, pauses for about
// maxBusyPause at most. A process that can't know that it waits leaves it so much time after maxUnbroken.
const (
	maxBusyPause = maxUnbroken / unknownShare
	busy         = 4 * MaxStreakTime
)

// AnnounceGrace is how long after the first node's announcement a waiter waits for those of other
// nodes. One node is not a quorum, but announcements may be lost.
const AnnounceGrace = 2 * time.Millisecond

// Linger is how long a subscription remains at most while its last waiter has the lock, and a streak after its last
// hold: a process often contends for the same name again.
const Linger = time.Second

// AgainAfter is how long a process may take on a busy machine to contend for a name again.
const AgainAfter = 10 * time.Millisecond

// The bounds of a slot: the time that a waiter leaves to each process that goes before it.
const (
	minSlot = time.Millisecond
	maxSlot = 64 * time.Millisecond
)

// never is an instant that does not come.
const never = clock.Instant(1<<63 - 1)
