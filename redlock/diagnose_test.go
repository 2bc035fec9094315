package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// diagnosed returns a report and its findings in short form.
func diagnosed(t *testing.T, l *Locker) (*doctor.Report, []string) {
	t.Helper()
	r, err := l.Diagnose(bg)
	require.NoError(t, err)
	var short []string
	for _, n := range r.Nodes {
		for _, f := range n.Findings {
			short = append(short, fmt.Sprintf("%s: %v %s", n.Node, f.Grade, f.Code))
		}
	}
	for _, f := range r.Findings {
		short = append(short, fmt.Sprintf("%v %s", f.Grade, f.Code))
	}
	return r, short
}

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
		require.Equal(t, doctor.Node{
			Node: "n2", Address: "redis://n2:6379/0", Answered: true, Version: "7.2.4", RunID: fl.masters[1].RunID(),
			Uptime: n.Uptime, Role: "master", Persistence: "AOF, fsync always", Eviction: "noeviction",
			ClockRead: true, ClockOffset: -15 * time.Millisecond, RoundTrip: 30 * time.Millisecond,
		}, n)
		require.InDelta(t, time.Hour, n.Uptime, float64(2*time.Second))
		require.Empty(t, fl.left())
		fl.answered()
		require.Equal(t, 3, stats(l).Connected)
		for _, m := range fl.masters {
			require.Equal(t, 1, m.Connections())
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

// The patterns are those of docs/operations.md: of this Locker's prefix and, with fencing, of its
// counters.
func TestADiagnosisNamesThePatternsOfKeysThatAreDenied(t *testing.T) {
	denied := []string{"~app/*", "&redlock:free:app/*", "~redlock:fence:app/*", "~redlock:guard"}
	for what, c := range map[string]struct {
		opts []Option
		want []string
	}{
		"plain":   {nil, slices.Concat(denied[:2], denied[3:])},
		"fencing": {[]Option{WithFencing()}, denied},
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
			r, _ := diagnosed(t, fl.locker(append(c.opts, WithKeyPrefix("app/"))...))
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
		defer n.Close()
		l, err := New([]Node{n}, WithClock(clock.Runtime()), WithNodeTimeout(time.Second))
		require.NoError(t, err)
		defer l.Close(bg)
		r, _ := diagnosed(t, l)
		require.Contains(t, r.Nodes[0].Findings[0].Text, "could not be examined: pool: no connection: the proxy is asleep")
	})
}

// A node that does not answer is not waited for beyond the node timeout, and is reported.
func TestADiagnosisIsBoundedByTheNodeTimeoutAndByItsContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is frozen
		l := fl.locker(WithNodeTimeout(300 * time.Millisecond))
		fl.masters[2].Freeze()
		var r *doctor.Report
		require.Equal(t, 300*time.Millisecond, elapsed(func() { r, _ = diagnosed(t, l) }))
		require.True(t, r.Nodes[1].Answered)
		require.False(t, r.Nodes[2].Answered)

		ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
		defer cancel()
		_, err := l.Diagnose(ctx)
		matches(t, err, context.DeadlineExceeded)
		fl.close(l)
		_, err = l.Diagnose(bg)
		matches(t, err, ErrClosed)
	})
}

func TestADiagnosisOfNodesThatKnowNoExaminationSaysSo(t *testing.T) {
	_, l := fakes(t, 3)
	r, short := diagnosed(t, l)
	require.Equal(t, []string{"n1: error unreachable", "n2: error unreachable", "n3: error unreachable"}, short)
	require.Empty(t, r.Nodes[0].Address)
}

// twice makes a Locker of three nodes, of which the last two are one server.
func (fl *testbed) twice(opts ...Option) *Locker {
	fl.t.Helper()
	var nodes []Node
	for i, name := range []string{"a", "b", "c"} {
		m := fl.masters[min(i, 1)]
		n, err := pool.Open(pool.Config{Name: name, Address: m.Addr(), Dial: m.Dial, Clock: fl.clock})
		require.NoError(fl.t, err)
		nodes = append(nodes, n)
	}
	l, err := New(nodes, append([]Option{WithClock(fl.clock)}, opts...)...)
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() { fl.close(l) })
	synctest.Wait()
	return l
}

// docs/dev/hazards.md H34: without the check a crash of that one server would cost two votes.
func TestOneServerUnderTwoNamesVotesOnce(t *testing.T) {
	inBubble(t, 2, func(fl *testbed) {
		l := fl.twice()
		k, err := l.TryAcquire(bg, "x", time.Minute)
		require.NoError(t, err, "two of three")
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Empty(t, fl.left())

		fl.masters[0].Stop()
		time.Sleep(time.Second)
		err = tried(l)
		matches(t, err, ErrNoQuorum, ErrUnfit)
		require.ErrorContains(t, err, "b and c are the same server")
		require.ErrorContains(t, l.Healthy(bg), "b and c are the same server")

		r, short := diagnosed(t, l)
		require.Contains(t, short, "error duplicate")
		require.True(t, r.Failed())
	})
}

// The server may vote under another name once the connections of its first name have ended.
func TestAServerThatMovesToAnotherNameVotesUnderIt(t *testing.T) {
	inBubble(t, 2, func(fl *testbed) {
		l := fl.twice()
		require.NoError(t, releasedAtOnce(l))
		require.NoError(t, l.nodes[1].(*pool.Node).Close())
		require.NoError(t, releasedAtOnce(l), "a and c")
	})
}

func releasedAtOnce(l *Locker) error {
	k, err := l.TryAcquire(bg, "x", time.Minute)
	if err != nil {
		return err
	}
	return k.Release(bg)
}

func TestUnfitNodesVoteWhereTheyAreExcepted(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.masters[0].SetInfo("maxmemory", "1000")
		fl.masters[0].SetInfo("maxmemory_policy", "volatile-lru")
		fl.masters[1].Deny("INFO")
		for _, c := range []struct {
			opts    []Option
			granted int
		}{
			{nil, 1},
			{[]Option{WithUnsafeNodes("n1")}, 2},
			{[]Option{WithUnsafeNodes("n1"), WithUnsafeNodes("n2", "n3")}, 3},
		} {
			l := fl.locker(c.opts...)
			k, err := l.TryAcquire(bg, "x", time.Minute)
			fl.answered()
			if c.granted < 2 {
				matches(t, err, ErrNoQuorum, ErrUnfit)
				require.ErrorContains(t, err, "n1 deletes keys when its memory is full (volatile-lru")
				require.ErrorContains(t, err, "n2 does not answer INFO")
				require.Equal(t, []Outcome{OutcomeFailed, OutcomeFailed}, votes(t, err)[:2])
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.granted, fl.keys("x"))
			require.NoError(t, k.Release(bg))
			fl.answered()
			require.Empty(t, fl.left())
		}
		refuses(t, func() error { _, err := New(fl.locker().nodes, WithUnsafeNodes("n4")); return err }(), "n4", "n1", "WithUnsafeNodes")
	})
}

// A lock that is held meanwhile is not lost: its keys on a majority remain, and the release also
// reaches the unfit node.
func TestANodeThatBecomesUnfitDuringAHoldIsStillReleased(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.Acquire(bg, "x", time.Minute)
		require.NoError(t, err)
		fl.masters[0].SetInfo("role", "slave")
		time.Sleep(11 * time.Second)
		require.NoError(t, k.Extend(bg, time.Minute))
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Empty(t, fl.left())
		fl.masters[0].SetInfo("role", "")
		time.Sleep(recheckAfter + time.Millisecond)
		k, err = l.Acquire(bg, "x", time.Minute)
		require.NoError(t, err)
		fl.answered()
		require.Equal(t, 3, fl.keys("x"), "it was cured, and votes again")
		require.NoError(t, k.Release(bg))
	})
}
