package waiting

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

func TestALookSaysWhenAWaiterContinues(t *testing.T) {
	for what, c := range map[string]struct {
		look
		grace clock.Instant
		at    clock.Instant
		why   Reason
	}{
		"behind others": {look: look{queued: true, until: 5, expiry: 4, due: 3, rest: 2}, at: never, why: none},
		"a pause":       {look: look{until: 5, why: ByPoll, expiry: never}, at: 5, why: ByPoll},
		"an expiry":     {look: look{until: 5, why: ByPoll, expiry: 4}, at: 4, why: ByExpiry},
		"an expiry that is not the end": {
			look: look{until: 5, why: ByPoll, expiry: 4, renewing: true}, at: 5, why: ByPoll,
		},
		"a release":                  {look: look{until: 5, why: ByPoll, expiry: 4, due: 3}, at: 3, why: ByMessage},
		"a release and a late turn":  {look: look{until: 5, why: ByPoll, expiry: never, due: 7}, at: 5, why: ByPoll},
		"a release during a poll":    {look: look{until: 5, why: byAnswer, polling: true, expiry: never, due: 3}, at: 3, why: ByMessage},
		"a release by one node":      {look: look{until: 5, why: ByPoll, expiry: never, due: 3}, grace: 4, at: 4, why: ByMessage},
		"no release, and a grace":    {look: look{until: 5, why: ByPoll, expiry: never}, grace: 4, at: 5, why: ByPoll},
		"a rest":                     {look: look{until: 5, why: ByPoll, expiry: never, rest: 3}, at: 3, why: byRest},
		"a rest that is longer":      {look: look{until: 5, why: ByPoll, expiry: 4, rest: 7}, at: 4, why: ByExpiry},
		"a pause after a streak":     {look: look{until: 5, why: ByMessage, expiry: never}, at: 5, why: ByMessage},
		"a poll without all answers": {look: look{until: 5, why: byAnswer, polling: true, expiry: never}, at: 5, why: byAnswer},
	} {
		at, why := c.next(c.grace)
		require.Equal(t, c.at, at, what)
		require.Equal(t, c.why, why, what)
	}
}

func TestALookSaysWhatAWaiterDoesNext(t *testing.T) {
	pause, listening := look{}, look{told: true, held: true}
	poll := look{told: true, held: true, polling: true}
	for what, c := range map[string]struct {
		look
		why  Reason
		told bool
		want step
	}{
		"nothing happened":                      {listening, none, true, sleeps},
		"a rest is over":                        {listening, byRest, false, sleeps},
		"a handoff":                             {listening, ByHandoff, true, tries},
		"a handoff during a poll":               {poll, ByHandoff, true, tries},
		"a handoff to one behind others":        {look{queued: true}, ByHandoff, false, tries},
		"a subscription of one behind others":   {look{queued: true, told: true}, BySubscription, true, tries},
		"a release":                             {listening, ByMessage, true, tries},
		"a release during a poll":               {poll, ByMessage, true, tries},
		"the end of a pause":                    {pause, ByPoll, false, tries},
		"the end of a pause, subscribed since":  {look{held: true}, ByPoll, true, tries},
		"a subscription":                        {look{held: true}, BySubscription, true, polls},
		"a subscription after a split vote":     {pause, BySubscription, true, tries},
		"the time of a poll":                    {listening, ByPoll, true, polls},
		"the time of a poll, no longer told":    {listening, ByPoll, false, tries},
		"a subscription that was lost for long": {listening, BySubscription, true, polls},
		"an expiry":                             {listening, ByExpiry, true, tries},
		"an expiry in a pause":                  {look{held: true}, ByExpiry, false, tries},
		"answers":                               {poll, byAnswer, true, concludes},
		"no answers until an expiry":            {poll, ByExpiry, true, concludes},
		"a subscription during a poll":          {poll, BySubscription, true, concludes},
		"a subscription lost during a poll":     {poll, ByPoll, false, concludes},
	} {
		require.Equal(t, c.want, c.after(c.why, c.told), what)
	}
}

func TestALookAfterAPoll(t *testing.T) {
	l := look{expiry: 7}
	l.poll(3)
	require.Equal(t, tries, l.answered(true, 0, 9), "the names are free")
	require.Equal(t, tries, l.answered(false, never, 9), "what no longer expires may not be a lock")

	require.Equal(t, sleeps, l.answered(false, 20, 9))
	at, why := l.next(0)
	require.Equal(t, clock.Instant(9), at)
	require.Equal(t, ByPoll, why)
	require.Equal(t, polls, l.after(why, true))

	l.expiry = never
	require.Equal(t, sleeps, l.answered(false, never, 9), "it did not expire before")
}

// A plan is in place of a rest, and not earlier than messages in vain allow.
func TestAPlanOfAnAttempt(t *testing.T) {
	l := look{until: 100, why: ByPoll, expiry: never, rest: 50}
	l.plan(20)
	at, why := l.next(0)
	require.Equal(t, clock.Instant(20), at)
	require.Equal(t, ByMessage, why)

	l.ignore(30)
	at, _ = l.next(0)
	require.Equal(t, clock.Instant(30), at)
	l.plan(40)
	at, _ = l.next(0)
	require.Equal(t, clock.Instant(40), at)

	l.plan(0)
	l.ignore(60)
	at, why = l.next(0)
	require.Equal(t, clock.Instant(100), at, "no attempt is planned")
	require.Equal(t, ByPoll, why)
}
