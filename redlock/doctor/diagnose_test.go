package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// durable makes the masters report that they lose no data.
func durable(fl *testbed) {
	fl.each(func(m *fakeredis.Master) {
		m.SetInfo("aof_enabled", "1")
		m.FailWith("CONFIG", "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways")
	})
}

func TestADiagnosisOfSoundNodesFindsNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		durable(fl)
		fl.masters[1].SetDelay(30 * time.Millisecond)
		l := fl.locker()
		time.Sleep(time.Hour)
		r, short := diagnosed(t, l)
		require.Empty(t, short)
		require.False(t, r.Failed())
		require.Equal(t, 15*time.Millisecond, r.ClockSpread, "half of a round trip is what it is known to")
		n := r.Nodes[1]
		require.Equal(t, Node{
			Node: "n2", Address: "redis://n2:6379/0", Answered: true, Version: "7.2.4", RunID: fl.masters[1].RunID(),
			Uptime: n.Uptime, Role: "master", Persistence: "AOF, fsync always", Eviction: "noeviction",
			ClockRead: true, ClockOffset: -15 * time.Millisecond, RoundTrip: 30 * time.Millisecond,
		}, n)
		require.InDelta(t, time.Hour, n.Uptime, float64(2*time.Second))
		synctest.Wait()
		for _, m := range fl.masters {
			require.Empty(t, m.Keys())
			require.Equal(t, 1, m.Connections(), "those of the diagnosis are gone")
		}
	})
}

func TestADiagnosisReportsWhatIsWrongWithEachNodeAndWithAllOfThem(t *testing.T) {
	inBubble(t, 4, func(fl *testbed) {
		durable(fl)
		fl.masters[0].SetInfo("role", "slave")
		fl.masters[1].SetInfo("aof_enabled", "0")
		fl.masters[1].Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			now := time.Now().Add(3 * time.Second)
			return fmt.Sprintf("*2\r\n:%d\r\n:%d", now.Unix(), now.Nanosecond()/1000), cmd == "TIME"
		})
		fl.masters[2].Deny("PEXPIRE")
		fl.masters[3].Stop()
		l := fl.locker()
		r, short := diagnosed(t, l)
		require.Equal(t, []string{
			"n1: error replica", "n2: warning persistence", "n3: error rights", "n4: error unreachable",
			"warning even", "warning clock", "warning persistence",
		}, short)
		require.True(t, r.Failed())
		require.Equal(t, "replica", r.Nodes[0].Role)
		require.Equal(t, []string{"pexpire"}, r.Nodes[2].MissingRights)
		require.False(t, r.Nodes[3].Answered)
		require.Contains(t, r.Nodes[3].Findings[0].Text, "n4 could not be examined: ")
		require.Contains(t, r.Nodes[3].Findings[0].Text, "connection refused")
		require.Equal(t, 3*time.Second, r.ClockSpread)
		require.Contains(t, r.Findings[2].Text, "(n1: AOF, fsync always; n2: ")
	})
}

func TestANodeThatHidesHowItPersistsIsNotComparedWithOthers(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		durable(fl)
		fl.masters[0].Deny("INFO")
		_, short := diagnosed(t, fl.locker())
		require.NotContains(t, short, "warning persistence")
		fl.masters[2].SetInfo("aof_enabled", "0")
		r, _ := diagnosed(t, fl.locker())
		require.Contains(t, r.Findings[0].Text, "(n2: AOF, fsync always; n3: ")
	})
}

// A marker that a busy server does not show is none to be deleted.
func TestABusyNodeGetsNoAdviceAboutItsMarker(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		durable(fl)
		l := fl.locker(redlock.WithRestartGuard(admitTTL))
		_, err := Admit(bg, l)
		require.NoError(t, err)
		fl.masters[1].Hook(func(int64, string, []string) (string, bool) { return "-BUSY Redis is busy running a script.", true })
		r, short := diagnosed(t, l)
		require.Contains(t, short, "n2: error unreachable")
		require.NotContains(t, short, "n2: error guard")
		require.Empty(t, r.Nodes[1].Guard)
		require.Contains(t, r.Nodes[1].Findings[0].Text, "n2 could not be examined: BUSY ")
	})
}

// The patterns are those of docs/operations.md: of this Locker's prefix and, with fencing, of its
// counters.
func TestADiagnosisNamesThePatternsOfKeysThatAreDenied(t *testing.T) {
	denied := []string{"~app/*", "&redlock:free:app/*", "~redlock:fence:app/*", "~redlock:guard"}
	for what, c := range map[string]struct {
		opts []redlock.Option
		want []string
	}{
		"plain":   {nil, slices.Concat(denied[:2], denied[3:])},
		"fencing": {[]redlock.Option{redlock.WithFencing()}, denied},
	} {
		inBubble(t, 3, func(fl *testbed) {
			fl.masters[1].Hook(func(_ int64, cmd string, args []string) (string, bool) {
				switch {
				case cmd == "PUBLISH":
					return "-NOPERM No permissions to access a channel", true
				case len(args) > 0 && (strings.HasPrefix(args[0], "app/") || strings.HasPrefix(args[0], "redlock:")):
					return "-NOPERM No permissions to access a key", cmd != "SUBSCRIBE" && cmd != "UNSUBSCRIBE"
				}
				return "", false
			})
			r, _ := diagnosed(t, fl.locker(append(c.opts, redlock.WithKeyPrefix("app/"))...))
			require.Equal(t, c.want, r.Nodes[1].MissingRights, what)
			require.Empty(t, r.Nodes[0].MissingRights)
		})
	}
}

// A node's own error says more than that there was no answer. It comes when the timeout is over.
func TestTheErrorOfANodeAtTheEndOfItsTimeoutIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := pool.Open(pool.Config{Address: "a:6379", Clock: clock.Runtime(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond)
			return nil, errors.New("the proxy is asleep")
		}})
		require.NoError(t, err)
		l, err := redlock.New([]*pool.Node{n}, redlock.WithClock(clock.Runtime()), redlock.WithNodeTimeout(time.Second))
		require.NoError(t, err)
		defer l.Close(bg)
		r, _ := diagnosed(t, l)
		require.Contains(t, r.Nodes[0].Findings[0].Text, "could not be examined: pool: no connection: the proxy is asleep")
	})
}

// A node that does not answer is not waited for beyond the node timeout, and is reported.
func TestADiagnosisIsBoundedByTheNodeTimeoutAndByItsContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(redlock.WithNodeTimeout(300 * time.Millisecond))
		fl.masters[2].Freeze()
		var r *Report
		require.Equal(t, 300*time.Millisecond, elapsed(func() { r, _ = diagnosed(t, l) }))
		require.True(t, r.Nodes[1].Answered)
		require.False(t, r.Nodes[2].Answered)

		ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
		defer cancel()
		_, err := Diagnose(ctx, l)
		matches(t, err, context.DeadlineExceeded)
		end(l)
		_, err = Diagnose(bg, l)
		matches(t, err, redlock.ErrClosed)
	})
}

// docs/dev/hazards.md H34.
func TestOneServerUnderTwoNamesIsAnError(t *testing.T) {
	inBubble(t, 2, func(fl *testbed) {
		r, short := diagnosed(t, fl.twice())
		require.Contains(t, short, "error duplicate")
		require.True(t, r.Failed())
	})
}

func TestTheZeroLockerIsClosed(t *testing.T) {
	_, err := Diagnose(bg, new(redlock.Locker))
	require.Equal(t, redlock.ErrClosed, err)
	_, err = Admit(bg, new(redlock.Locker))
	require.Equal(t, redlock.ErrClosed, err)
}

func TestDiagnoseHasAnErrorOfOneLine(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancelCause(bg)
		cancel(errors.New("one\ntwo"))
		_, err := Diagnose(ctx, fl.locker())
		require.EqualError(t, err, "redlock: diagnose: one; two")
	})
}

// planted sets a terminal's colour, reverses the direction of its text, and is long.
var planted = "\x1b[31m\n\u202e" + strings.Repeat("z", 10<<10)

// requireShowable fails if an error or a report, in any form in which programs print it, contains control
// characters, or a text that is too long.
func requireShowable(t *testing.T, err error, reports ...*Report) {
	t.Helper()
	texts := []string{err.Error()}
	for _, r := range reports {
		encoded, err := json.Marshal(r)
		require.NoError(t, err)
		texts = append(texts, fmt.Sprintf("%v", *r), fmt.Sprintf("%+v", *r), string(encoded))
	}
	for _, text := range texts {
		require.NotContains(t, text, strings.Repeat("z", 520))
		for _, r := range text {
			require.True(t, unicode.IsPrint(r), "%q in %q", r, text)
		}
	}
}
