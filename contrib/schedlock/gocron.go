package schedlock

import (
	"context"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/go-redlock/redlock"
)

var _ gocron.Locker = (*Jobs)(nil)

// Lock acquires the lock of a job's tick. gocron calls it, if the Jobs were passed to
// gocron.WithDistributedLocker or gocron.WithDistributedJobLocker. If it returns an error gocron
// skips the tick, and calls gocron.AfterLockError. The errors are those of
// redlock.Locker.TryAcquire.
//
// job is the name that gocron.WithName sets. Set it: by default it is the name of the task's
// function, which changes with the code. Two jobs with one name exclude each other.
func (j *Jobs) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := j.acquire(ctx, job)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unclaimed[job] = lock
	return &gocronLock{jobs: j, job: job, lock: lock}, nil
}

// GocronTask returns a task for gocron.Scheduler.NewJob. fn gets a context that ends when the job's
// lock ends, or when gocron stops the job (redlock.Lock.Bind). fn must stop its work then. Its cause
// (context.Cause) is that of redlock.Lock.Context, or that of gocron's context. A function that is
// passed to gocron.NewTask gets gocron's own context, and is not told that its lock was lost.
//
// job must be the name that gocron.WithName gives to the job. Otherwise, and without the Jobs as its
// locker, the task does not run fn and fails with ErrNoLock.
func (j *Jobs) GocronTask(job string, fn func(ctx context.Context, lock *redlock.Lock) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		lock := j.claim(job)
		if lock == nil {
			err := fmt.Errorf("%w: %q", ErrNoLock, job)
			j.skip(ctx, job, err)
			return err
		}
		ctx, cancel := lock.Bind(ctx)
		defer cancel()
		return fn(ctx, lock)
	})
}

// claim returns the lock that was acquired for the job, or nil. Each lock is returned once, so two
// tasks can never run under one lock.
func (j *Jobs) claim(job string) *redlock.Lock {
	j.mu.Lock()
	defer j.mu.Unlock()
	lock := j.unclaimed[job]
	delete(j.unclaimed, job)
	return lock
}

// gocronLock is the lock of one tick.
type gocronLock struct {
	jobs *Jobs
	job  string
	lock *redlock.Lock
}

// Unlock is called by gocron after the task, also if it panicked.
func (l *gocronLock) Unlock(ctx context.Context) error {
	l.jobs.mu.Lock()
	if l.jobs.unclaimed[l.job] == l.lock {
		delete(l.jobs.unclaimed, l.job)
	}
	l.jobs.mu.Unlock()
	return l.jobs.release(ctx, l.job, l.lock)
}
