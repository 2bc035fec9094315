package schedlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/contrib/schedlock"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

func TestProcessesWhoseClocksDifferRunEachTickOnce(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		const ticks = 12
		var ran runs
		processes := startAll(t, q, s, minHold, &ran)
		time.Sleep(ticks * interval)
		processes.stop()
		ran.requireOnce(t, ticks)
		skips := 0
		for _, p := range processes.all {
			require.Empty(t, p.losses())
			for _, skipped := range p.skips() {
				require.Equal(t, "report", skipped.job)
				require.ErrorIs(t, skipped.err, redlock.ErrHeld)
				skips++
			}
		}
		require.Equal(t, (len(offsets)-1)*ticks, skips, "the other processes see each tick, and skip it")
	})
}

// The negative control: with a minimum hold below the difference of the clocks a tick runs again.
func TestTheMinimumHoldMustCoverTheDifferenceOfTheClocks(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		var ran runs
		processes := startAll(t, q, s, 4*time.Second, &ran)
		time.Sleep(interval)
		processes.stop()
		require.Len(t, ran.counts(), 1)
		for _, n := range ran.counts() {
			require.Equal(t, 2, n, "the last process is 5 s late")
		}
	})
}

type processes struct {
	all  []*process
	stop func()
}

// startAll starts a process for each offset. Its job takes a second.
func startAll(t *testing.T, q *redlocktest.Quorum, s scheduler, minHold time.Duration, ran *runs) processes {
	t.Helper()
	var ps processes
	var stops []func()
	for _, ahead := range offsets {
		p := newProcess(t, q, ahead, schedlock.Job{MinHold: minHold, TTL: time.Second})
		ps.all = append(ps.all, p)
		stops = append(stops, s.start(t, p, func(context.Context, *redlock.Lock) {
			ran.add(p)
			time.Sleep(time.Second)
		}))
	}
	ps.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	return ps
}

func TestAJobThatIsLongerThanTheTTLKeepsItsLock(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		job := schedlock.Job{MinHold: time.Second, TTL: 2 * time.Second}
		first, second := newProcess(t, q, time.Second, job), newProcess(t, q, 0, job)
		var ends []error
		stopFirst := s.start(t, first, func(ctx context.Context, _ *redlock.Lock) {
			time.Sleep(3*interval - 5*time.Second) // 12 times the TTL
			ends = append(ends, ctx.Err())
		})
		var ran runs
		stopSecond := s.start(t, second, func(context.Context, *redlock.Lock) { ran.add(second) })
		time.Sleep(3 * interval)
		stopFirst()
		stopSecond()
		require.Equal(t, []error{nil}, ends)
		require.Empty(t, first.losses())
		require.Len(t, first.skips(), 2, "its own ticks while the job runs")
		require.Len(t, second.skips(), 3)
		require.Empty(t, ran.counts())
	})
}

func TestTheNextTickRunsWhenALongJobHasEnded(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		p := newProcess(t, q, 0, schedlock.Job{MinHold: time.Second})
		var ran runs
		stop := s.start(t, p, func(context.Context, *redlock.Lock) {
			ran.add(p)
			time.Sleep(interval + time.Second)
		})
		time.Sleep(4 * interval)
		stop()
		require.Len(t, p.skips(), 2)
		ran.requireOnce(t, 2)
	})
}

func TestAMinorityThatIsDownChangesNothing(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		var ran runs
		processes := startAll(t, q, s, minHold, &ran)
		time.Sleep(interval)
		q.Stop(0)
		time.Sleep(3 * interval)
		q.Restart(0)
		q.Freeze(1)
		time.Sleep(2 * interval)
		processes.stop()
		ran.requireOnce(t, 6)
	})
}

func TestATickWithoutAQuorumIsSkippedAndReported(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		p := newProcess(t, q, 0, schedlock.Job{MinHold: minHold})
		var ran runs
		stop := s.start(t, p, func(context.Context, *redlock.Lock) { ran.add(p) })
		q.LoseMajority()
		time.Sleep(2 * interval)
		require.Empty(t, ran.counts())
		require.Len(t, p.skips(), 2)
		for _, skipped := range p.skips() {
			require.Equal(t, "report", skipped.job)
			require.ErrorIs(t, skipped.err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, skipped.err, redlock.ErrHeld)
		}
		q.Restore()
		time.Sleep(interval)
		stop()
		ran.requireOnce(t, 1)
		require.Contains(t, p.logs.String(), `level=ERROR msg="a tick was skipped: no lock" job=report`)
	})
}

func TestAJobThatLosesItsLockIsTold(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		p := newProcess(t, q, 0, schedlock.Job{MinHold: minHold})
		causes := make(chan error, 1)
		stop := s.start(t, p, func(ctx context.Context, _ *redlock.Lock) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
		})
		time.Sleep(interval/2 + time.Second)
		q.ExpireNow(lockName)
		require.ErrorIs(t, await(t, causes), redlock.ErrLost)
		synctest.Wait()
		stop()
		require.Len(t, p.losses(), 1)
		require.Equal(t, "report", p.losses()[0].job)
		require.ErrorIs(t, p.losses()[0].err, redlock.ErrLost)
		require.Contains(t, p.logs.String(), "level=ERROR msg=\"a job ended after its lock")
	})
}

// No timer has run when the machine wakes up.
func TestAJobSeesTheEndOfItsLockRightAfterASuspend(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		suspended := clocktest.NewSkewed(q.Clock())
		p := newProcess(t, q, 0, schedlock.Job{MinHold: minHold}, redlock.WithClock(suspended))
		ends := make(chan [2]error, 1)
		stop := s.start(t, p, func(ctx context.Context, _ *redlock.Lock) {
			suspended.Suspend(2 * schedlock.DefaultTTL)
			ends <- [2]error{ctx.Err(), context.Cause(ctx)}
		})
		end := await(t, ends)
		synctest.Wait()
		stop()
		require.ErrorIs(t, end[0], context.Canceled)
		require.ErrorIs(t, end[1], redlock.ErrLost)
		require.Len(t, p.losses(), 1)
	})
}

func TestTheMaximumHoldOfTheOptionsEndsAJob(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		p := newProcess(t, q, 0, schedlock.Job{
			MinHold: time.Second, Options: []redlock.LockOption{redlock.WithMaxHold(3 * time.Second)},
		})
		causes := make(chan error, 1)
		stop := s.start(t, p, func(ctx context.Context, _ *redlock.Lock) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
		})
		require.ErrorIs(t, await(t, causes), redlock.ErrMaxHold)
		synctest.Wait()
		stop()
		require.Len(t, p.losses(), 1)
		require.ErrorIs(t, p.losses()[0].err, redlock.ErrMaxHold)
	})
}

func TestAReleaseThatCannotBeConfirmedIsLoggedAndIsNoLoss(t *testing.T) {
	inBubbles(t, func(t *testing.T, q *redlocktest.Quorum, s scheduler) {
		p := newProcess(t, q, 0, schedlock.Job{MinHold: time.Second})
		stop := s.start(t, p, func(context.Context, *redlock.Lock) { time.Sleep(3 * time.Second) })
		time.Sleep(interval/2 + 2*time.Second)
		q.LoseMajority()
		time.Sleep(3 * time.Second)
		stop()
		require.Empty(t, p.losses())
		require.Contains(t, p.logs.String(), `level=WARN msg="a job's lock could not be released: it expires" job=report`)
	})
}

// Jobs of one scheduler differ in all their settings.
func TestEachJobHasItsOwnSettings(t *testing.T) {
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		p := newProcess(t, q, 0, schedlock.Job{})
		c := cron.New(cron.WithParser(withSeconds))
		add := func(spec string, job schedlock.Job) cron.Job {
			id, err := p.AddCron(t.Context(), c, spec, job, func(context.Context, *redlock.Lock) {})
			require.NoError(t, err)
			return c.Entry(id).WrappedJob
		}
		add("@every 10s", schedlock.Job{Name: "short", MinHold: time.Second}).Run()
		add("@daily", schedlock.Job{Name: "long", MinHold: time.Hour}).Run()
		held := func(name string) bool {
			_, is := q.Holder("jobs/" + name)
			return is
		}
		require.True(t, held("short"))
		require.True(t, held("long"))
		time.Sleep(2 * time.Second)
		require.False(t, held("short"))
		time.Sleep(time.Hour - 3*time.Second)
		require.True(t, held("long"))
		time.Sleep(time.Second)
		require.False(t, held("long"))
	})
}

// A tick that waits runs when the last run has ended, and when nodes are back.
func TestATickWaitsAsLongAsItsJobSays(t *testing.T) {
	for name, disturb := range map[string]func(q *redlocktest.Quorum) (end func()){
		"held": func(q *redlocktest.Quorum) func() { return q.HoldElsewhere(lockName, time.Minute) },
		"no quorum": func(q *redlocktest.Quorum) func() {
			q.LoseMajority()
			return q.Restore
		},
	} {
		for after, runs := range map[time.Duration]int{3 * time.Second: 1, 5 * time.Second: 0} {
			t.Run(name+" for "+after.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
					p := newProcess(t, q, 0, schedlock.Job{MinHold: minHold, Wait: 4 * time.Second})
					ran := 0
					job := p.added(t, func(context.Context, *redlock.Lock) { ran++ })
					end := disturb(q)
					time.AfterFunc(after, end)
					job.Run()
					require.Equal(t, runs, ran)
					require.Len(t, p.skips(), 1-runs)
					time.Sleep(2 * time.Second)
				})
			})
		}
	}
}

func TestSettingsOutOfBoundsAreRefused(t *testing.T) {
	q := redlocktest.New(t, 3)
	locker := q.Locker()
	jobs := schedlock.New(locker, schedlock.Config{Prefix: "jobs/"})
	c := cron.New()
	for name, job := range map[string]schedlock.Job{
		"no Name":                       {MinHold: time.Second},
		"a Name too long":               {Name: string(make([]byte, 600)), MinHold: time.Second},
		"no MinHold":                    {Name: "report"},
		"a negative MinHold":            {Name: "report", MinHold: -time.Second, Wait: -time.Minute},
		"a MinHold too short":           {Name: "report", MinHold: time.Millisecond},
		"a MinHold as long as the hour": {Name: "report", MinHold: time.Hour},
		"a negative TTL":                {Name: "report", MinHold: time.Second, TTL: -time.Second},
		"a negative Wait":               {Name: "report", MinHold: time.Second, Wait: -time.Second},
		"a Wait as long as MinHold":     {Name: "report", MinHold: time.Second, Wait: time.Second},
		"a MaxHold too short":           {Name: "report", MinHold: time.Second, Options: []redlock.LockOption{redlock.WithMaxHold(time.Millisecond)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jobs.AddCron(t.Context(), c, "@hourly", job, nil)
			require.ErrorIs(t, err, redlock.ErrInvalid)
		})
	}
	good := schedlock.Job{Name: "report", MinHold: time.Second}
	_, err := jobs.AddCron(t.Context(), c, "every hour", good, nil)
	require.ErrorContains(t, err, `schedlock: job "report": expected exactly 5 fields`)
	require.Empty(t, c.Entries())
	_, err = jobs.AddCron(t.Context(), c, "@hourly", good, nil)
	require.NoError(t, err)
	_, held := q.Holder(lockName)
	require.False(t, held, "AddCron sends nothing")
	require.NoError(t, locker.Close(t.Context()))
	_, err = jobs.AddCron(t.Context(), c, "@hourly", good, nil)
	require.ErrorIs(t, err, redlock.ErrClosed)
}
