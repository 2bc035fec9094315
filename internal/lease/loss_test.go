package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/lease"
)

// The lease was confirmed at 100 s and is valid until 109 s, so a pause of more than 2.25 s counts.
func TestALossHasTheLastEventThatCausedIt(t *testing.T) {
	asked := func(s float64) func(*lease.Lease) { return func(l *lease.Lease) { l.Asked(at(s)) } }
	for name, c := range map[string]struct {
		want        lease.Loss
		from, until float64 // of a pause
		do          func(l *lease.Lease)
	}{
		"nothing happened":                       {lease.Expired, 0, 0, nil},
		"the last extension was confirmed":       {lease.Expired, 0, 0, asked(99)},
		"an extension was not":                   {lease.NoQuorum, 0, 0, asked(103)},
		"a long pause":                           {lease.Paused, 101, 104, nil},
		"a long pause before the confirmation":   {lease.Expired, 90, 100, nil},
		"a long pause across the confirmation":   {lease.Paused, 98, 101, nil},
		"a short pause":                          {lease.Expired, 101, 103, nil},
		"a pause after an extension was sent":    {lease.Paused, 104, 110, asked(103)},
		"an extension that failed after a pause": {lease.NoQuorum, 101, 104, asked(104)},
		"a short pause after an extension":       {lease.NoQuorum, 104, 106, asked(103)},
		"a quorum refused": {lease.Gone, 104, 110, func(l *lease.Lease) {
			l.Asked(at(103))
			l.MarkLost(at(105))
		}},
		"the Locker was closed": {lease.Closed, 0, 0, func(l *lease.Lease) {
			l.Asked(at(103))
			l.StopExtending()
		}},
	} {
		l := begun(terms)
		if c.do != nil {
			c.do(l)
		}
		require.Equal(t, c.want.String(), l.Loss(at(c.from), at(c.until)).String(), name)
	}
	limited := terms
	limited.MaxHold = 8 * second
	l := begun(limited)
	l.Asked(at(103))
	require.Equal(t, lease.MaxHold, l.Loss(at(104), at(110)))
	require.Equal(t, lease.Expired, begun(lease.Terms{}).Loss(0, 0))
	gated := terms
	gated.Progress = second
	l = begun(gated)
	requireDue(t, l, lease.Nothing, at(100).Add(terms.Interval))
	require.Equal(t, lease.NoProgress, l.Loss(at(104), at(110)))
}

func TestALeaseKnowsSinceWhenAnotherClientMayHoldTheLock(t *testing.T) {
	l := &lease.Lease{Terms: terms}
	l.Begin(at(100), at(109), at(102))
	require.Equal(t, at(100), l.Confirmed(), "from before the first byte of the acquisition")
	require.True(t, l.Extended(at(103), at(112), at(104)))
	require.Equal(t, at(103), l.Confirmed(), "from before the first byte of the extension")
	require.True(t, l.Extended(at(101), at(110), at(105)), "an older one that was answered later")
	require.Equal(t, at(103), l.Confirmed())
	l.Checked(at(106), lease.Never, at(106))
	require.Equal(t, at(106), l.Confirmed())
	require.False(t, l.Extended(at(107), at(116), at(112)), "too late")
	require.Equal(t, at(106), l.Confirmed())
}

func TestALeaseKnowsWhenItsValidityIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		want clock.Instant
		do   func(l *lease.Lease)
	}{
		"held":     {at(109), func(*lease.Lease) {}},
		"lost":     {at(103), func(l *lease.Lease) { l.MarkLost(at(103)) }},
		"ended":    {at(104), func(l *lease.Lease) { l.End(at(104)) }},
		"over":     {at(109), func(l *lease.Lease) { l.End(at(120)) }},
		"shortens": {at(105), func(l *lease.Lease) { l.Checked(at(101), at(105), at(101)) }},
	} {
		l := begun(terms)
		c.do(l)
		require.Equal(t, c.want, l.Ends(), name)
	}
}

func TestAPauseIsLongAboveAQuarterOfTheValidity(t *testing.T) {
	require.False(t, lease.LongPause(time.Second, 4*time.Second))
	require.True(t, lease.LongPause(time.Second+1, 4*time.Second))
}
