package schedlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/go-redlock/redlock"
)

// AddGocron adds a job to s, at the ticks of definition. At a tick it calls fn while it holds the
// job's lock. fn gets a context that ends when the lock ends, or when gocron stops the job
// (redlock.Lock.Bind). fn must stop its work then. Its cause (context.Cause) is that of
// redlock.Lock.Context, or that of gocron's context.
//
// AddGocron sets gocron.WithName and gocron.WithDistributedJobLocker. opts are further options of the
// job. gocron.AfterLockError gets the errors of skipped ticks, and the other listeners that of fn.
//
// The error matches redlock.ErrInvalid if a setting is out of its bounds, and if job.MinHold is not
// shorter than the interval. The interval of a gocron.DurationJob, DurationRandomJob and CronJob is
// known. The error matches redlock.ErrClosed if the Locker is closed, and otherwise wraps that
// of gocron.Scheduler.NewJob. AddGocron sends nothing.
func (j *Jobs) AddGocron(s gocron.Scheduler, definition gocron.JobDefinition, job Job,
	fn func(ctx context.Context, lock *redlock.Lock) error, opts ...gocron.JobOption,
) (gocron.Job, error) {
	added, err := j.prepare(job)
	if err != nil {
		return nil, err
	}
	defer close(added.checked)
	opts = append(slices.Clone(opts),
		gocron.WithName(job.Name), gocron.WithDistributedJobLocker(gocronLocker{added}), gocron.WithDisabledDistributedJobLocker(false))
	known, err := s.NewJob(definition, gocron.NewTask(added.runGocron(fn)), opts...)
	if err != nil {
		return nil, fmt.Errorf("schedlock: job %q: %w", job.Name, err)
	}
	if err := added.refuseInterval(gocronInterval(known.Schedule())); err != nil {
		return nil, errors.Join(err, s.RemoveJob(known.ID()))
	}
	return known, nil
}

// runGocron returns the task of the job. gocron has acquired the lock before it starts the task.
func (j *job) runGocron(fn func(ctx context.Context, lock *redlock.Lock) error) func(context.Context) error {
	return func(ctx context.Context) error {
		r := j.claim()
		if r == nil {
			return j.skip(ctx, fmt.Errorf("%w: %q", ErrNoLock, j.settings.Name))
		}
		ctx, cancel := r.Bind(ctx)
		defer cancel()
		return fn(ctx, r.Lock)
	}
}

// claim returns the run whose task begins, or nil. Each run is returned once, so two tasks can never
// run under one lock.
func (j *job) claim() *run {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.unclaimed
	j.unclaimed = nil
	return r
}

// gocronLocker acquires the locks of a job for gocron.
type gocronLocker struct{ *job }

// Lock acquires the lock of a tick. After an error gocron skips the tick.
func (l gocronLocker) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	r, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unclaimed = r
	return gocronLock{l.job, r}, nil
}

// gocronLock is the lock of one tick.
type gocronLock struct {
	job *job
	run *run
}

// Unlock is called by gocron after the task, also if it panicked.
func (l gocronLock) Unlock(ctx context.Context) error {
	return l.job.end(ctx, l.run)
}
