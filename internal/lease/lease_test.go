package lease_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

const second = time.Second

// at is an instant, in seconds.
func at(s float64) clock.Instant { return clock.Instant(s * float64(second)) }

// terms are those of an automatically extended lease of 9 s, with a stop margin of 1 s.
var terms = lease.Terms{AutoExtend: true, Interval: 8 * second / 3, Patience: 2 * second, StopMargin: second}

// firstPause is the longest pause after the first failure.
const firstPause = 8 * second / 3 / 16

// begun returns a lease that was acquired from 100 s on, is valid until 109 s, and began at 100 s.
func begun(t lease.Terms) *lease.Lease {
	l := &lease.Lease{Terms: t}
	l.Begin(at(100), at(109), at(100))
	return l
}

// requireDue checks what is due at an instant.
func requireDue(t *testing.T, l *lease.Lease, want lease.Action, now clock.Instant) {
	t.Helper()
	require.Equal(t, want.String(), l.Due(now).String(), "at %v", time.Duration(now))
}

func TestALeaseBeforeItsBeginAndAfterItsEndHasNothingDue(t *testing.T) {
	l := &lease.Lease{Terms: terms}
	require.True(t, l.Acquiring())
	require.False(t, l.Held())
	requireDue(t, l, lease.Nothing, at(100))
	require.Equal(t, lease.Never, l.Next())
	l.Begin(at(100), at(109), at(100))
	require.False(t, l.Acquiring())
	require.Equal(t, 7*second, l.End(at(102)))
	require.False(t, l.Held())
	requireDue(t, l, lease.Nothing, at(200))
	require.Equal(t, lease.Never, l.Next())
	require.Equal(t, at(102), l.Ends())
	require.Equal(t, -3*second, l.Remaining(at(105)))
}

// An extension is due after each interval, then the end of the context, then the end.
func TestTheActionsOfALeaseInOrder(t *testing.T) {
	patient := terms
	patient.Patience = 10 * second
	l := begun(patient)
	extend := at(100).Add(terms.Interval)
	require.Equal(t, extend, l.Next())
	requireDue(t, l, lease.Nothing, extend-1)
	requireDue(t, l, lease.Extend, extend)
	requireDue(t, l, lease.Nothing, at(108)-1)
	require.Equal(t, at(108), l.Next())
	require.False(t, l.Stopped())
	requireDue(t, l, lease.EndContext, at(108))
	require.True(t, l.Stopped())
	require.Equal(t, at(109), l.Next())
	require.Equal(t, second, l.Remaining(at(108)))
	requireDue(t, l, lease.End, at(109))
}

func TestAnExtensionWithoutAnOutcomeIsDueAgainAfterThePatience(t *testing.T) {
	l := begun(terms)
	extend := l.Next()
	requireDue(t, l, lease.Extend, extend)
	again := extend.Add(terms.Patience)
	require.Equal(t, again, l.Next())
	requireDue(t, l, lease.Nothing, again-1)
	requireDue(t, l, lease.Extend, again)
}

func TestAnExtensionMovesTheEndForwardOnly(t *testing.T) {
	l := begun(terms)
	require.True(t, l.Extended(at(101), at(110), at(101.5)))
	require.Equal(t, at(110), l.Ends())
	require.Equal(t, at(101).Add(terms.Interval), l.Next(), "counted from its start")
	require.True(t, l.Extended(at(102), at(105), at(102)))
	require.Equal(t, at(110), l.Ends())
}

// docs/dev/hazards.md H114: no reply revives a lease that has ended.
func TestNothingRevivesALease(t *testing.T) {
	for name, end := range map[string]func(*lease.Lease) (now clock.Instant){
		"at the instant of its end": func(*lease.Lease) clock.Instant { return at(109) },
		"lost": func(l *lease.Lease) clock.Instant {
			require.True(t, l.MarkLost(at(101)))
			return at(101)
		},
		"stopped": func(l *lease.Lease) clock.Instant {
			l.StopExtending()
			return at(101)
		},
		"ended": func(l *lease.Lease) clock.Instant {
			l.End(at(101))
			return at(101)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := begun(terms)
			now := end(l)
			require.False(t, l.Extendable(now))
			require.False(t, l.Extended(at(100), at(200), now))
			require.LessOrEqual(t, l.Ends(), at(109))
			l.Missing(1, now)
			require.NotEqual(t, lease.Repair, l.Due(now))
			next := l.Next()
			l.ExtendFailed(now)
			require.Equal(t, next, l.Next())
		})
	}
}

// The first quorum that refuses the token determines when the lease was lost, but no later than its
// end.
func TestALeaseIsLostOnce(t *testing.T) {
	l := begun(terms)
	require.True(t, l.MarkLost(at(103)))
	require.False(t, l.MarkLost(at(104)))
	require.True(t, l.Held())
	require.False(t, l.Valid(at(103)))
	require.LessOrEqual(t, l.Next(), at(103))
	require.Equal(t, -second, l.Remaining(at(104)))
	requireDue(t, l, lease.End, at(103))
	require.Equal(t, -second, l.End(at(104)))
	require.Equal(t, at(103), l.Ends())

	l = begun(terms)
	require.True(t, l.MarkLost(at(120)))
	require.Equal(t, at(109), l.Ends())
	require.False(t, (&lease.Lease{}).MarkLost(at(1)))
}

func TestAMaximumHoldEndsALeaseRegardlessOfExtensions(t *testing.T) {
	long := terms
	long.MaxHold = 20 * second
	l := begun(long)
	require.False(t, l.EndsByMaxHold())
	l.Extended(at(118), at(127), at(118))
	require.Equal(t, at(109), begun(long).Ends())
	for now := 101.0; now < 118; now++ {
		l.Extended(at(now), at(now+9), at(now))
	}
	require.Equal(t, at(120), l.Ends())
	require.True(t, l.EndsByMaxHold())
	requireDue(t, l, lease.EndContext, at(119))
	requireDue(t, l, lease.End, at(120))
	l.MarkLost(at(119))
	require.False(t, l.EndsByMaxHold(), "it was lost before")
}

func TestTheFirstRetryComesAfterASixteenthOfTheInterval(t *testing.T) {
	for interval, most := range map[time.Duration]time.Duration{
		16 * time.Second: time.Second, 16 * time.Millisecond: time.Millisecond, 15 * time.Millisecond: time.Millisecond, 0: 0,
	} {
		var longest time.Duration
		for range 1000 {
			l := begun(lease.Terms{AutoExtend: true, Interval: interval})
			l.ExtendFailed(at(101))
			longest = max(longest, l.Next().Sub(at(101)))
		}
		require.LessOrEqual(t, longest, most, interval)
		require.GreaterOrEqual(t, longest, most*9/10, interval)
	}
}

// The pause after a failure doubles from a 16th of the interval to the whole of it, with jitter.
func TestFailedExtensionsAreRetriedSoonAtFirst(t *testing.T) {
	for range 100 {
		l := begun(terms)
		l.Extended(at(100), at(1000), at(100))
		now := at(100)
		for n := range 12 {
			l.ExtendFailed(now)
			most := min(firstPause<<n, terms.Interval)
			pause := l.Next().Sub(now)
			require.LessOrEqual(t, pause, most)
			require.GreaterOrEqual(t, pause, most/2)
			now = l.Next()
		}
		require.True(t, l.Extended(now, at(2000), now))
		require.Equal(t, now.Add(terms.Interval), l.Next())
		l.ExtendFailed(now)
		require.LessOrEqual(t, l.Next().Sub(now), firstPause, "a success begins anew")
	}
}

func TestCheckShortensALeaseAndBringsItsExtensionForward(t *testing.T) {
	l := begun(terms)
	l.Checked(at(101), at(110), at(101))
	require.Equal(t, at(109), l.Ends(), "it never extends")
	l.Checked(at(101), at(105), at(101))
	require.Equal(t, at(105), l.Ends())
	require.Equal(t, at(102), l.Next(), "a third of what is left before the stop margin")

	l = begun(terms)
	l.Extended(at(102), at(111), at(102))
	l.Checked(at(101), at(105), at(103))
	require.Equal(t, at(111), l.Ends(), "the nodes may have answered before the extension")
	l.Checked(at(102), at(105), at(103))
	require.Equal(t, at(105), l.Ends())

	l = begun(terms)
	l.Extended(at(101), at(111), at(103))
	l.Checked(at(102), at(105), at(104))
	require.Equal(t, at(105), l.Ends(), "the extension began before they were asked")
}

func TestARepairIsDueAtOnceAndOnce(t *testing.T) {
	l := begun(terms)
	l.Missing(quorum.Nodes(2), at(101))
	require.LessOrEqual(t, l.Next(), at(101))
	requireDue(t, l, lease.Repair, at(101))
	require.Equal(t, quorum.Nodes(2), l.TakeMissing(at(101)))
	requireDue(t, l, lease.Nothing, at(101))
	require.Zero(t, l.TakeMissing(at(101)))
	l.Missing(1, at(101))
	require.Zero(t, l.TakeMissing(at(109)), "nothing is repaired at the end or after it")
}

func TestNothingIsRepairedOnceNothingExtendsTheLease(t *testing.T) {
	l := begun(terms)
	l.Missing(quorum.Nodes(2), at(101))
	l.StopExtending()
	requireDue(t, l, lease.Nothing, at(101))
}

func TestWorkThatHangsStopsTheExtensions(t *testing.T) {
	hanging := terms
	hanging.Progress, hanging.Patience = 2*second, 0
	l := begun(hanging)
	require.False(t, l.MadeProgress(at(101)))
	requireDue(t, l, lease.Extend, at(102.9))
	requireDue(t, l, lease.Nothing, at(103))
	require.Equal(t, at(108), l.Next(), "the end of the context")
	require.True(t, l.MadeProgress(at(105)))
	requireDue(t, l, lease.Extend, at(105))
}

func TestALeaseThatIsNotExtendedAutomatically(t *testing.T) {
	l := begun(lease.Terms{Interval: second, MaxHold: 8 * second})
	require.Equal(t, at(108), l.Next())
	requireDue(t, l, lease.End, at(108))
}

// A share has no end of its own.
func TestALeaseWithoutAnEnd(t *testing.T) {
	l := &lease.Lease{}
	l.Begin(at(100), lease.Never, at(100))
	require.Equal(t, lease.Never, l.Next())
	requireDue(t, l, lease.Nothing, at(1e9))
	require.True(t, l.Valid(at(1e9)))
}

// FuzzLease applies random events. Whatever happens, the end never moves after it has passed, nothing
// is sent at or after it, and Next is never later than what Due returns.
func FuzzLease(f *testing.F) {
	f.Add(uint64(1), int64(0))
	f.Add(uint64(2), int64(20*second))
	f.Fuzz(func(t *testing.T, seed uint64, maxHold int64) {
		r := rand.New(rand.NewPCG(seed, 2))
		tm := terms
		tm.MaxHold = time.Duration(max(0, maxHold))
		l := begun(tm)
		now, over := at(100), false
		for range 200 {
			now = now.Add(time.Duration(r.Int64N(int64(3 * second))))
			if over && l.Valid(now) {
				t.Fatalf("valid again at %v", time.Duration(now))
			}
			over = !l.Valid(now)
			if at := l.Next(); at > now && at != lease.Never {
				before := *l
				if due := before.Due(at - 1); due != lease.Nothing && !before.Stopped() {
					t.Fatalf("%v is due before %v", due, time.Duration(at))
				}
			}
			switch due := l.Due(now); {
			case due == lease.Extend && !l.Extendable(now), due == lease.Repair && !l.Extendable(now):
				t.Fatalf("%v of a lease that has ended", due)
			case due == lease.Repair:
				l.TakeMissing(now)
			}
			switch r.IntN(8) {
			case 0, 1, 2:
				l.Extended(now.Add(-second), now.Add(8*second), now)
			case 3:
				l.ExtendFailed(now)
			case 4:
				l.Checked(now, now.Add(time.Duration(r.Int64N(int64(9*second)))), now)
			case 5:
				l.Missing(1, now)
			case 6:
				if r.IntN(10) == 0 {
					l.MarkLost(now)
				}
			case 7:
				if r.IntN(10) == 0 {
					l.StopExtending()
				}
			}
		}
	})
}

// Otherwise LostError.For would be too short: the work may have overlapped with another holder's since then.
func TestALeaseThatIsLostAfterItsMaximumHoldWasOverBefore(t *testing.T) {
	limited := terms
	limited.MaxHold = 5 * second
	l := begun(limited)
	require.True(t, l.MarkLost(at(107)))
	require.Equal(t, at(105), l.Ends())
}
