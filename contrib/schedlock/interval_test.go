package schedlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/schedlock"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// longest are the longest minimum holds that the schedules admit, in steps of a minute.
var longest = map[string]time.Duration{
	"@every 10m":             9 * time.Minute,
	"@hourly":                59 * time.Minute,
	"0 */5 * * * *":          4 * time.Minute,
	"0 0,59 * * * *":         0, // from minute 59 to minute 0
	"0 50 0,12,13 * * *":     59 * time.Minute,
	"0 0 8-17/3 * * MON-FRI": 2*time.Hour + 59*time.Minute,
	"0 0,30 23,0 1,15 * *":   29 * time.Minute,
	"0 0 0 31,1 * *":         24*time.Hour - time.Minute, // from the 31st to the 1st
}

func TestAMinimumHoldThatIsNotShorterThanTheIntervalIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		p := newProcess(t, q, 0, schedlock.Job{})
		add := map[string]func(spec string, job schedlock.Job) (added int, err error){
			"cron": func(spec string, job schedlock.Job) (int, error) {
				c := cron.New(cron.WithParser(withSeconds), cron.WithLocation(time.UTC))
				_, err := p.AddCron(t.Context(), c, spec, job, nil)
				return len(c.Entries()), err
			},
			"gocron": func(spec string, job schedlock.Job) (int, error) {
				s := p.gocronScheduler(t)
				defer func() { require.NoError(t, s.Shutdown()) }()
				_, err := p.AddGocron(s, gocron.CronJob(spec, true), job, nil)
				return len(s.Jobs()), err
			},
		}
		for scheduler, add := range add {
			for spec, longest := range longest {
				name := scheduler + " " + spec
				if longest > 0 {
					added, err := add(spec, schedlock.Job{Name: "report", MinHold: longest})
					require.NoError(t, err, name)
					require.Equal(t, 1, added, name)
				}
				added, err := add(spec, schedlock.Job{Name: "report", MinHold: longest + time.Minute})
				require.ErrorIs(t, err, redlock.ErrInvalid, name)
				require.ErrorContains(t, err, "not shorter than the shortest time between two ticks", name)
				require.Zero(t, added, name)
			}
		}
	})
}

func TestTheIntervalsOfGocronsJobsAreKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		p := newProcess(t, q, 0, schedlock.Job{})
		noon := gocron.NewAtTimes(gocron.NewAtTime(12, 0, 0))
		for name, of := range map[string]struct {
			definition gocron.JobDefinition
			refused    bool
		}{
			"duration": {gocron.DurationJob(time.Minute), true},
			"random":   {gocron.DurationRandomJob(time.Minute, time.Hour), true},
			"crontab":  {gocron.CronJob("* * * * *", false), true},
			"zone":     {gocron.CronJob("TZ=UTC * * * * *", false), true},
			"daily":    {gocron.DailyJob(1, noon), false}, // unknown
			"one time": {gocron.OneTimeJob(gocron.OneTimeJobStartDateTime(p.now().Add(time.Hour))), false},
		} {
			s := p.gocronScheduler(t)
			_, err := p.AddGocron(s, of.definition, schedlock.Job{Name: "report", MinHold: time.Minute}, nil)
			if of.refused {
				require.ErrorIs(t, err, redlock.ErrInvalid, name)
				require.Empty(t, s.Jobs(), name)
			} else {
				require.NoError(t, err, name)
			}
			require.NoError(t, s.Shutdown())
		}
		s := p.gocronScheduler(t)
		_, err := p.AddGocron(s, gocron.CronJob("every hour", false), schedlock.Job{Name: "report", MinHold: time.Minute}, nil)
		require.ErrorIs(t, err, gocron.ErrCronJobParse)
		require.ErrorContains(t, err, `schedlock: job "report": `)
		require.NoError(t, s.Shutdown())
	})
}

// Where the interval is unknown, the first tick that the own minimum hold skips says so.
func TestATickInItsOwnMinimumHoldIsNoOtherClient(t *testing.T) {
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		first, second := newProcess(t, q, 0, schedlock.Job{MinHold: minHold}), newProcess(t, q, 0, schedlock.Job{MinHold: minHold})
		ran := 0
		count := func(context.Context, *redlock.Lock) { ran++ }
		job, other := first.added(t, count), second.added(t, count)
		job.Run()
		time.Sleep(2 * time.Second)
		job.Run()
		require.Len(t, first.skips(), 1)
		require.ErrorIs(t, first.skips()[0].err, schedlock.ErrMinHold)
		require.NotErrorIs(t, first.skips()[0].err, redlock.ErrHeld, "no other process runs this tick")
		require.Regexp(t, `level=WARN msg="a tick was skipped: the job's own minimum hold has not ended, `+
			`which must be shorter than the interval" job=report min_hold=7s remaining=(5|4\.99\d*)s`, first.logs.String())
		other.Run()
		require.ErrorIs(t, second.skips()[0].err, redlock.ErrHeld, "this process cannot tell")
		time.Sleep(minHold)
		other.Run()
		job.Run()
		require.Equal(t, 2, ran)
		require.ErrorIs(t, first.skips()[1].err, redlock.ErrHeld, "the lock is the other process's now")
	})
}

// A lock that was lost has no minimum hold any more.
func TestAfterALossTheHolderIsAnotherClient(t *testing.T) {
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		p := newProcess(t, q, 0, schedlock.Job{MinHold: minHold, TTL: time.Second})
		job := p.added(t, func(ctx context.Context, _ *redlock.Lock) {
			q.StealLock(lockName, time.Minute)
			<-ctx.Done() // the next extension finds it, long before the end of the minimum hold
		})
		job.Run()
		require.Len(t, p.losses(), 1)
		job.Run()
		require.ErrorIs(t, p.skips()[0].err, redlock.ErrHeld)
		require.Contains(t, p.logs.String(), `level=INFO msg="a tick was skipped: the lock is held" job=report owner=`+redlocktest.OtherOwner)
	})
}
