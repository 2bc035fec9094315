package schedulers

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/schedlock"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	interval = 5 * time.Second
	spec     = "*/5 * * * * *"

	// minHold leaves 1.5 s for processes that are late.
	minHold = interval / 2

	// punctual is how late a process may be. The ticks at which one is later, and those after them, show
	// nothing: the machine is so busy that minHold is too short. nodeTimeout is longer, so that a node that
	// answers late makes the process late.
	punctual    = time.Second
	nodeTimeout = 2 * time.Second

	// patience bounds the wait for what happens soon.
	patience = time.Minute
)

// report is the job of all processes.
var report = schedlock.Job{Name: "report", MinHold: minHold}

// offsets are by how much the processes' clocks are ahead.
var offsets = []time.Duration{500 * time.Millisecond, 0, -500 * time.Millisecond}

// tick is what one process did at one tick.
type tick struct {
	process int
	at      time.Time     // by the process's clock, of the schedule
	late    time.Duration // by how much it was later than that
	err     error         // nil if the job ran
}

func tickOf(process int, ahead time.Duration, err error) tick {
	now := time.Now().Add(ahead)
	at := now.Add(100 * time.Millisecond).Truncate(interval) // a timer may be a little early
	return tick{process, at, now.Sub(at), err}
}

// aheadClock is a clock for gocron that is ahead of this machine's.
type aheadClock struct {
	clockwork.Clock
	ahead time.Duration
}

func (c aheadClock) Now() time.Time { return c.Clock.Now().Add(c.ahead) }

func startGocron(t *testing.T, jobs *schedlock.Jobs, ahead time.Duration, run func(context.Context)) (stop func()) {
	t.Helper()
	s, err := gocron.NewScheduler(gocron.WithClock(aheadClock{clockwork.NewRealClock(), ahead}))
	require.NoError(t, err)
	_, err = jobs.AddGocron(s, gocron.CronJob(spec, true), report, func(ctx context.Context, _ *redlock.Lock) error {
		run(ctx)
		return nil
	})
	require.NoError(t, err)
	s.Start()
	return func() { assert.NoError(t, s.Shutdown()) }
}

// aheadParser parses schedules by a clock that is ahead of this machine's.
type aheadParser struct {
	cron.ScheduleParser
	ahead time.Duration
}

func (p aheadParser) Parse(spec string) (cron.Schedule, error) {
	s, err := p.ScheduleParser.Parse(spec)
	return aheadSchedule{s, p.ahead}, err
}

type aheadSchedule struct {
	cron.Schedule
	ahead time.Duration
}

func (s aheadSchedule) Next(now time.Time) time.Time {
	return s.Schedule.Next(now.Add(s.ahead)).Add(-s.ahead)
}

func startCron(t *testing.T, jobs *schedlock.Jobs, ahead time.Duration, run func(context.Context)) (stop func()) {
	t.Helper()
	withSeconds := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	c := cron.New(cron.WithParser(aheadParser{withSeconds, ahead}))
	_, err := jobs.AddCron(t.Context(), c, spec, report, func(ctx context.Context, _ *redlock.Lock) { run(ctx) })
	require.NoError(t, err)
	c.Start()
	return func() { <-c.Stop().Done() }
}

// At the first tick all nodes are up, from the second on one is down, and at the last none votes.
func TestEachTickRunsOnceThoughClocksDifferAndANodeFails(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *schedlock.Jobs, time.Duration, func(context.Context)) func(){
		"gocron": startGocron, "cron": startCron,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.Start(t, 3)
			ticks := make(chan tick, 100)
			for i, ahead := range offsets {
				locker, err := redlock.Open(redistest.URLs(nodes), redlock.WithNodeTimeout(nodeTimeout))
				require.NoError(t, err)
				defer locker.Close(t.Context())
				awaitHealthy(t, locker)
				note := func(err error) { ticks <- tickOf(i, ahead, err) }
				jobs := schedlock.New(locker, schedlock.Config{
					Logger:  slog.New(slog.DiscardHandler),
					Skipped: func(_ string, err error) { note(err) },
				})
				stop := sync.OnceFunc(start(t, jobs, ahead, func(context.Context) { note(nil) }))
				defer stop()
			}

			seen := map[time.Time][]tick{}
			complete := func() int { return countComplete(seen) }
			awaitTicks(t, ticks, seen, func() bool { return complete() == 1 })
			nodes[0].Kill(t)
			awaitTicks(t, ticks, seen, func() bool { return complete() == 3 })
			requireEachOnce(t, seen)

			nodes[1].Kill(t)
			dead := time.Now().Add(offsets[0])
			awaitTicks(t, ticks, seen, func() bool {
				maps.DeleteFunc(seen, func(at time.Time, _ []tick) bool { return at.Before(dead) })
				return complete() == 1
			})
			for _, all := range seen {
				for _, one := range all {
					require.ErrorIs(t, one.err, redlock.ErrNoQuorum, "process %d", one.process)
				}
			}
		})
	}
}

// Keys without an expiry, and keys that are not locks, skip every tick. The log says so.
func TestAKeyThatWouldSkipEveryTickIsLoggedAsAnError(t *testing.T) {
	nodes := redistest.Start(t, 3)
	locker, err := redlock.Open(redistest.URLs(nodes), redlock.WithNodeTimeout(patience/3)) // the minimum hold is longer
	require.NoError(t, err)
	defer locker.Close(t.Context())
	awaitHealthy(t, locker)
	var logs bytes.Buffer
	jobs := schedlock.New(locker, schedlock.Config{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	for _, n := range nodes {
		n.Do(t, "SET", "no-expiry", "foreign")
		n.Do(t, "LPUSH", "list", "foreign")
		n.Do(t, "SET", "expires", "foreign", "EX", 60)
	}
	for job, level := range map[string]string{"no-expiry": "ERROR", "list": "ERROR", "expires": "INFO"} {
		logs.Reset()
		c := cron.New()
		id, err := jobs.AddCron(t.Context(), c, "@hourly", schedlock.Job{Name: job, MinHold: patience}, func(context.Context, *redlock.Lock) {
			t.Error("it ran without its lock")
		})
		require.NoError(t, err)
		c.Entry(id).WrappedJob.Run()
		require.Contains(t, logs.String(), "level="+level, job)
		require.Equal(t, level == "ERROR", strings.Contains(logs.String(), "every tick is skipped until it is deleted"), logs.String())
	}
}

func awaitHealthy(t *testing.T, locker *redlock.Locker) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for locker.Healthy(t.Context()) != nil {
		require.True(t, time.Now().Before(deadline), "no quorum of nodes is connected")
		time.Sleep(10 * time.Millisecond)
	}
}

// countComplete counts the punctual ticks at which every process did something.
func countComplete(seen map[time.Time][]tick) (n int) {
	for at, all := range seen {
		if len(all) == len(offsets) && arePunctual(seen, at) {
			n++
		}
	}
	return n
}

// arePunctual reports whether no process was late at a tick or the one before.
func arePunctual(seen map[time.Time][]tick, at time.Time) bool {
	late := func(one tick) bool { return one.late > punctual }
	return !slices.ContainsFunc(seen[at], late) && !slices.ContainsFunc(seen[at.Add(-interval)], late)
}

func awaitTicks(t *testing.T, ticks <-chan tick, seen map[time.Time][]tick, done func() bool) {
	t.Helper()
	limit := time.After(2 * patience) // some ticks may not be punctual
	for !done() {
		select {
		case one := <-ticks:
			seen[one.at] = append(seen[one.at], one)
		case <-limit:
			t.Fatalf("too few ticks within %v: %v", 2*patience, seen)
		}
	}
}

// requireEachOnce requires that at each punctual tick one process ran the job and the others found the lock
// held. The schedulers may have started in the midst of the first tick.
func requireEachOnce(t *testing.T, seen map[time.Time][]tick) {
	t.Helper()
	for at, all := range seen {
		if !arePunctual(seen, at) {
			continue
		}
		runs := 0
		for _, one := range all {
			if one.err == nil {
				runs++
				continue
			}
			require.ErrorIs(t, one.err, redlock.ErrHeld, "process %d at %v", one.process, at)
		}
		require.LessOrEqual(t, runs, 1, "%v", all)
		if len(all) == len(offsets) {
			require.Equal(t, 1, runs, "%v", all)
		}
	}
}
