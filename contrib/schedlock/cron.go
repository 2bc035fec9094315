package schedlock

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"

	"github.com/quorumlock/go-redlock/redlock"
)

// AddCron adds a job to c, at the ticks of spec, which c parses. At a tick it calls fn while it holds
// the job's lock. fn gets a context that ends when the lock ends, or when ctx ends
// (redlock.Lock.Bind). fn must stop its work then. Its cause (context.Cause) is that of
// redlock.Lock.Context, or that of ctx.
//
// cron itself stops no job: cancel ctx for that. When ctx has ended, ticks are skipped.
//
// AddCron sends nothing. The error matches redlock.ErrInvalid if a setting is out of its bounds, and
// if job.MinHold is not shorter than the shortest time between two ticks. It matches
// redlock.ErrClosed if the Locker is closed. It wraps cron's if c cannot parse spec.
func (j *Jobs) AddCron(ctx context.Context, c *cron.Cron, spec string, job Job,
	fn func(ctx context.Context, lock *redlock.Lock),
) (cron.EntryID, error) {
	added, err := j.prepare(job) //nolint:contextcheck // it sends nothing
	if err != nil {
		return 0, err
	}
	defer close(added.checked)
	id, err := c.AddFunc(spec, func() { added.runCron(ctx, fn) })
	if err != nil {
		return 0, fmt.Errorf("schedlock: job %q: %w", job.Name, err)
	}
	if err := added.refuseInterval(cronInterval(c.Entry(id).Schedule, c.Location())); err != nil {
		c.Remove(id)
		return 0, err
	}
	return id, nil
}

// runCron runs one tick.
func (j *job) runCron(ctx context.Context, fn func(ctx context.Context, lock *redlock.Lock)) {
	r, err := j.begin(ctx)
	if err != nil {
		return // reported
	}
	defer func() { _ = j.end(ctx, r) }() // also for a panic; an error is reported
	both, cancel := r.Bind(ctx)
	defer cancel()
	fn(both, r.Lock)
}
