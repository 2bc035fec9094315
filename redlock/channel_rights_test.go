package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestANodeWhoseUserHasNoRightToTheChannelsIsLoggedOnce(t *testing.T) {
	const publish, subscribe = "waiters of other processes find releases by polls", "waiters of this process poll, and may wait long"
	for name, test := range map[string]struct {
		denied  []string
		logged  []string
		missing []string
	}{
		"all rights": {},
		"no PUBLISH": {denied: []string{"PUBLISH"}, logged: []string{publish, `grant="+publish &redlock:free:app/*"`}, missing: []string{subscribe}},
		"no SUBSCRIBE": {
			denied: []string{"SUBSCRIBE"},
			logged: []string{subscribe, `grant="+subscribe &redlock:free:app/*"`}, missing: []string{publish},
		},
		"neither": {
			denied: []string{"PUBLISH", "SUBSCRIBE"},
			logged: []string{publish, subscribe, `grant="+publish +subscribe &redlock:free:app/*"`},
		},
		"no PUBSUB": {
			denied: []string{"PUBSUB"},
			logged: []string{"does not count the waiters", `grant="+pubsub|numsub &redlock:free:app/*"`}, missing: []string{publish, subscribe},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				log := &logged{}
				l := fl.locker(WithLogger(log.logger()), WithKeyPrefix("app/"))
				fl.masters[1].Deny(test.denied...)
				for range 3 {
					require.NoError(t, take(t, l, "a", time.Minute).Release(bg))
					fl.answered()
				}
				synctest.Wait()
				lines := log.lines()
				if len(test.denied) == 0 {
					require.Empty(t, lines)
					return
				}
				require.Len(t, lines, 1)
				for _, words := range append(test.logged, "level=WARN", "node=n2") {
					require.Contains(t, lines[0], words)
				}
				for _, words := range test.missing {
					require.NotContains(t, lines[0], words)
				}
			})
		})
	}
}

// What is not logged is not asked: an acquisition and its release stay two commands on each node.
func TestTheRightsToChannelsAreAskedOnlyForALog(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		for _, l := range []*Locker{fl.locker(), fl.locker(WithTrace(&Trace{}))} {
			fl.each(func(m *fakeredis.Master) { m.ForgetLog() })
			require.NoError(t, take(t, l, "a", time.Minute).Release(bg))
			fl.answered()
			require.Zero(t, fl.sees("channels"))
		}
	})
}
