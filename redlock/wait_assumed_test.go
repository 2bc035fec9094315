package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// A waiter hears of a release, another client is faster, and the waiter does not ask who. That one may crash, or
// never announce its release.
func TestAHolderThatWasNotAskedForIsPolledSoon(t *testing.T) {
	const soon = waiting.MaxForeignPause + 50*time.Millisecond
	for name, c := range map[string]struct {
		token       string
		ttl, during time.Duration
	}{
		"it crashes":               {"0123456789abcdef0123456789abcdef", 100 * time.Millisecond, 0},
		"it is of another library": {"Zm9yZWlnbiB0b2tlbg==", time.Hour, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				a, b := fl.process().locker(), fl.process().locker()
				k := take(fl.t, a, "a", time.Hour)
				done := waitingFor(bg, b, "a")
				time.Sleep(5 * time.Second)
				fl.each(func(m *fakeredis.Master) {
					taken := false
					m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
						if cmd == "SET" && !taken { // only one connection sends it
							taken = true
							m.Set("a", c.token, c.ttl)
						}
						return "", false
					})
				})
				require.NoError(t, k.Release(bg))
				time.Sleep(c.during)
				if c.during > 0 {
					fl.each(func(m *fakeredis.Master) { m.Del("a") })
				}
				freed := time.Now()
				got := gets(fl.t, done)
				require.LessOrEqual(t, got.at.Sub(freed), soon+c.ttl)
				require.NoError(t, got.k.Release(bg))
			})
		})
	}
}

// It learns soon who was faster: a person may be waiting in front of a terminal.
func TestAWaiterLearnsWhoWasFaster(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var j journal
		a, b := fl.process().locker(WithOwner("she")), fl.process().locker(WithTrace(j.trace()))
		k := take(fl.t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		j.take()
		fl.each(func(m *fakeredis.Master) {
			m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				if cmd == "SET" {
					m.Set("a", "they:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
				}
				return "", false
			})
		})
		require.NoError(t, k.Release(bg))
		time.Sleep(waiting.MaxForeignPause + 50*time.Millisecond)
		lines := j.take()
		require.Equal(t, `waiting: "they"`, lines[len(lines)-1])
		fl.each(func(m *fakeredis.Master) {
			m.Hook(nil)
			m.Del("a")
		})
		require.NoError(t, gets(fl.t, done).k.Release(bg))
	})
}
