package schedlock

import (
	"context"

	"github.com/robfig/cron/v3"

	"github.com/quorumlock/go-redlock/redlock"
)

// CronJob returns a job for cron.Cron.AddJob that calls fn while it holds the lock of the name job.
// fn gets a context that ends when the lock ends, or when ctx ends (redlock.Lock.Bind). fn must stop
// its work then. Its cause (context.Cause) is that of redlock.Lock.Context, or that of ctx.
//
// cron itself stops no job: cancel ctx for that. When ctx has ended, ticks are skipped.
func (j *Jobs) CronJob(ctx context.Context, job string, fn func(ctx context.Context, lock *redlock.Lock)) cron.Job {
	return cron.FuncJob(func() {
		lock, err := j.acquire(ctx, job)
		if err != nil {
			return // reported
		}
		defer func() { _ = j.release(ctx, job, lock) }() // also for a panic; an error is reported
		both, cancel := lock.Bind(ctx)
		defer cancel()
		fn(both, lock)
	})
}

// CronWrapper returns a wrapper that runs a job while it holds the lock of the name job. A cron.Job
// has no context, so it is not told that its lock was lost: see CronJob. Use one wrapper for one
// job, and not cron.WithChain for all jobs: they would exclude each other. When ctx has ended,
// ticks are skipped.
func (j *Jobs) CronWrapper(ctx context.Context, job string) cron.JobWrapper {
	return func(wrapped cron.Job) cron.Job {
		return j.CronJob(ctx, job, func(context.Context, *redlock.Lock) { wrapped.Run() })
	}
}
