package schedlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// job is a job of a scheduler of this process.
type job struct {
	*Jobs
	settings Job // with defaults
	opts     []redlock.LockOption

	checked chan struct{} // closed when the interval was checked; a tick before that waits for it
	refused error         // why the job must not run; constant once checked is closed

	mu        sync.Mutex // guards the fields below, and those of last
	last      *run       // nil before the first one
	unclaimed *run       // gocron's, whose task has not begun
}

// run is one run of a job.
type run struct {
	*redlock.Lock
	ended bool // from then on only its minimum hold keeps the name
}

func (j *job) lockName() string { return j.config.Prefix + j.settings.Name }

// refuseInterval refuses a job whose minimum hold is not shorter than the time between its ticks.
func (j *job) refuseInterval(shortest time.Duration, known bool) error {
	if known && j.settings.MinHold >= shortest {
		j.refused = invalid(j.settings, fmt.Sprintf("Job.MinHold (%v) is not shorter than the shortest time between two ticks (%v), "+
			"so ticks would be skipped: half of that time is a good choice", j.settings.MinHold, shortest))
	}
	return j.refused
}

// begin acquires the lock of a tick, or reports that the tick is skipped.
func (j *job) begin(ctx context.Context) (*run, error) {
	if <-j.checked; j.refused != nil {
		return nil, j.refused
	}
	lock, err := j.locker.Acquire(ctx, j.lockName(), j.settings.TTL, j.opts...)
	if err != nil {
		return nil, j.skip(ctx, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = &run{Lock: lock}
	return j.last, nil
}

// skip reports a tick that this process does not run. It returns the error as users get it.
func (j *job) skip(ctx context.Context, err error) error {
	s := explain(err, ctx.Err() != nil, j.own())
	j.config.Logger.Log(ctx, s.level, "a tick was skipped: "+s.because, append([]any{"job", j.settings.Name}, s.attributes...)...)
	if s.votes != nil {
		j.config.Logger.DebugContext(ctx, "the votes on a skipped tick", "job", j.settings.Name, "error", s.votes)
	}
	if j.config.Skipped != nil {
		j.config.Skipped(j.settings.Name, s.err)
	}
	return s.err
}

// own returns what this process itself does with the job. Only its last run can hold the lock.
func (j *job) own() own {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := own{minHold: j.settings.MinHold}
	if j.last != nil {
		o.id, o.runs = j.last.ID(), !j.last.ended
	}
	return o
}

// end releases the lock of a run, and reports a lock that ended before the job.
func (j *job) end(ctx context.Context, r *run) error {
	err := r.Release(ctx)
	lost := errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrMaxHold)
	j.mu.Lock()
	r.ended = true
	j.mu.Unlock()
	switch {
	case lost:
		j.config.Logger.ErrorContext(ctx, "a job ended after its lock: it may have overlapped with the next tick", "job", j.settings.Name, "error", err)
		if j.config.Lost != nil {
			j.config.Lost(j.settings.Name, err)
		}
	case err != nil:
		j.config.Logger.WarnContext(ctx, "a job's lock could not be released: it expires", "job", j.settings.Name, "error", err)
	}
	return err
}
