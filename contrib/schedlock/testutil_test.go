package schedlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/schedlock"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// Every test runs in a bubble with virtual time.

const interval = 10 * time.Second

// spec is the cron expression of the ticks, with seconds.
const spec = "*/10 * * * * *"

// offsets are by how much the processes' clocks are ahead: the last process is 5 s behind the first.
var offsets = []time.Duration{2 * time.Second, 0, -3 * time.Second}

// minHold is longer than the difference, and shorter than the interval.
const minHold = 7 * time.Second

// lockName is the name of the lock of a process's job.
const lockName = "jobs/report"

// report is what Jobs reported.
type report struct {
	job string
	err error
}

// process is a process with its own Locker, scheduler and clock.
type process struct {
	*schedlock.Jobs
	job   schedlock.Job
	ahead time.Duration
	logs  *bytes.Buffer // read it when the scheduler has stopped

	mu            sync.Mutex
	skipped, lost []report
}

// newProcess makes a process with a job, whose name is "report" by default.
func newProcess(t *testing.T, q *redlocktest.Quorum, ahead time.Duration, job schedlock.Job, opts ...redlock.Option) *process {
	t.Helper()
	job.Name = "report"
	p := &process{job: job, ahead: ahead, logs: &bytes.Buffer{}}
	p.Jobs = schedlock.New(q.Locker(opts...), schedlock.Config{
		Prefix:  "jobs/",
		Logger:  slog.New(slog.NewTextHandler(p.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Skipped: func(job string, err error) { p.note(&p.skipped, job, err) },
		Lost:    func(job string, err error) { p.note(&p.lost, job, err) },
	})
	return p
}

func (p *process) note(to *[]report, job string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, report{job, err})
}

func (p *process) skips() []report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skipped
}

func (p *process) losses() []report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// now is the time by the process's clock.
func (p *process) now() time.Time { return time.Now().Add(p.ahead) }

// aheadClock is a clock for gocron that is ahead of the bubble's.
type aheadClock struct {
	clockwork.Clock
	ahead time.Duration
}

func (c aheadClock) Now() time.Time { return c.Clock.Now().Add(c.ahead) }

// gocronScheduler makes a scheduler of gocron by the process's clock.
func (p *process) gocronScheduler(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(append(opts, gocron.WithLocation(time.UTC),
		gocron.WithClock(aheadClock{clockwork.NewRealClock(), p.ahead}))...)
	require.NoError(t, err)
	return s
}

// gocron starts the process's job at every tick of a scheduler of gocron. The result stops the
// scheduler, which must not be running the job.
func (p *process) gocron(t *testing.T, fn func(context.Context, *redlock.Lock) error, opts ...gocron.JobOption) (stop func()) {
	t.Helper()
	s := p.gocronScheduler(t)
	_, err := p.AddGocron(s, gocron.CronJob(spec, true), p.job, fn, opts...)
	require.NoError(t, err)
	s.Start()
	return func() { require.NoError(t, s.Shutdown()) }
}

// aheadParser parses schedules by a clock that is ahead of the bubble's.
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

// withSeconds parses expressions with six fields.
var withSeconds = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// cron starts the process's job at every tick of a scheduler of robfig/cron. The result stops the
// scheduler, and waits for the job.
func (p *process) cron(t *testing.T, ctx context.Context, fn func(context.Context, *redlock.Lock), chain ...cron.JobWrapper) (stop func()) { //nolint:revive // t comes first
	t.Helper()
	c := cron.New(cron.WithLocation(time.UTC), cron.WithParser(aheadParser{withSeconds, p.ahead}), cron.WithChain(chain...))
	_, err := p.AddCron(ctx, c, spec, p.job, fn)
	require.NoError(t, err)
	c.Start()
	return func() { <-c.Stop().Done() }
}

// scheduler starts a job that calls fn at every tick of a process.
type scheduler struct {
	name  string
	start func(t *testing.T, p *process, fn func(context.Context, *redlock.Lock)) (stop func())
}

var schedulers = []scheduler{
	{"gocron", func(t *testing.T, p *process, fn func(context.Context, *redlock.Lock)) func() {
		var running sync.WaitGroup
		var stopping atomic.Bool
		stop := p.gocron(t, func(ctx context.Context, lock *redlock.Lock) error {
			if stopping.Load() {
				return nil
			}
			running.Add(1)
			defer running.Done()
			fn(ctx, lock)
			return nil
		})
		return func() {
			stopping.Store(true)
			running.Wait() // gocron's own wait polls without a pause, which stops the time of a bubble
			stop()
		}
	}},
	{"cron", func(t *testing.T, p *process, fn func(context.Context, *redlock.Lock)) func() {
		return p.cron(t, t.Context(), fn)
	}},
}

// inBubbles runs f for each scheduler, on a quorum of three servers. It begins 5 s before a tick of
// a process whose clock is right.
func inBubbles(t *testing.T, f func(t *testing.T, q *redlocktest.Quorum, s scheduler)) {
	t.Helper()
	for _, s := range schedulers {
		t.Run(s.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, q *redlocktest.Quorum) { f(t, q, s) })
		})
	}
}

// inBubble runs f on a quorum of three servers, 5 s before a tick of a process whose clock is right.
func inBubble(t *testing.T, f func(t *testing.T, q *redlocktest.Quorum)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		time.Sleep(interval / 2) // virtual
		f(t, q)
	})
}

// await returns what a job sends.
func await[V any](t *testing.T, c <-chan V) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Hour): // virtual
		t.Fatal("the job sent nothing for an hour")
	}
	return v
}

// runs counts the runs of each tick.
type runs struct {
	mu    sync.Mutex
	ticks map[time.Time]int
}

// add counts a run of the process's present tick.
func (r *runs) add(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ticks == nil {
		r.ticks = map[time.Time]int{}
	}
	r.ticks[p.now().Round(interval)]++
}

func (r *runs) counts() map[time.Time]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ticks
}

// requireOnce requires that each of n ticks ran once.
func (r *runs) requireOnce(t *testing.T, n int) {
	t.Helper()
	counts := r.counts()
	require.Len(t, counts, n, "%v", counts)
	for tick, runs := range counts {
		assert.Equal(t, 1, runs, "runs of the tick at %v", tick)
	}
}
