package schedlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// DefaultTTL is the TTL of a job's lock unless Config.TTL is set.
const DefaultTTL = 30 * time.Second

// Config is the configuration of Jobs. Jobs with intervals of different length need several Jobs,
// each with its own MinHold. They can share a redlock.Locker.
type Config struct {
	// MinHold is how long a lock remains held after a tick began, even if the job ends sooner
	// (redlock.WithMinHold). It is required, and has the bounds of a TTL.
	//
	// It must be longer than the time between the first and the last process's attempt, plus the
	// node timeout (at most 500 ms by default). The processes attempt a tick at different times
	// because their clocks differ, and because a busy process is late. It must be shorter than the
	// interval between two ticks, by that same time. Otherwise a tick may be skipped in all
	// processes. Half of the interval is a good choice.
	MinHold time.Duration

	// TTL is how long the lock of a process that crashed remains held, if that is longer than
	// MinHold. The lock is extended while the job runs, so TTL does not bound the job. The default
	// is DefaultTTL. It has the bounds of redlock.Locker.TryAcquire.
	TTL time.Duration

	// Prefix is put before a job's name to form the name of its lock. By default the lock has the
	// job's name.
	Prefix string

	// Options are further options of every lock, for example redlock.WithMaxHold,
	// redlock.WithProgress or redlock.WithStopMargin.
	Options []redlock.LockOption

	// Logger logs ticks that were skipped, and jobs that lost their lock. A tick that another
	// process runs has level Info, and others have level Error. A key that is not a lock, or has no
	// expiry, also has level Error: every tick is skipped until it is deleted. The default is
	// slog.Default().
	Logger *slog.Logger

	// Skipped is called for every tick that this process does not run, before the scheduler
	// continues. The error matches redlock.ErrHeld if another process holds the lock, or a key that
	// is not a lock blocks it. With another error, for example redlock.ErrNoQuorum, the tick may
	// have run in no process. Calls may be concurrent. It may be nil.
	Skipped func(job string, err error)

	// Lost is called after a job whose lock ended before the job did. The error matches
	// redlock.ErrLost, or redlock.ErrMaxHold. The job may have overlapped with the next tick, in
	// another process. Calls may be concurrent. It may be nil.
	Lost func(job string, err error)
}

// ErrNoLock is the error of a task that was started without its lock. The task was not run.
var ErrNoLock = errors.New("schedlock: the task's job does not hold its lock" +
	" (the job needs gocron.WithName with the task's name, and its scheduler the Jobs as its locker)")

// Jobs acquires the locks of jobs. It implements gocron.Locker, and makes jobs for robfig/cron. It
// is safe for concurrent use.
type Jobs struct {
	locker *redlock.Locker
	config Config
	opts   []redlock.LockOption

	mu        sync.Mutex
	unclaimed map[string]*redlock.Lock // by job: locks of gocron's jobs whose task has not begun
}

// New returns Jobs that acquire their locks from locker. It sends nothing. The error matches
// redlock.ErrInvalid if a setting is out of its bounds, or redlock.ErrClosed. The caller closes
// the locker, after its scheduler has stopped.
func New(locker *redlock.Locker, config Config) (*Jobs, error) {
	if config.MinHold == 0 {
		return nil, fmt.Errorf("schedlock: %w: Config.MinHold is required", redlock.ErrInvalid)
	}
	config.TTL = cmp.Or(config.TTL, DefaultTTL)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	j := &Jobs{locker: locker, config: config, unclaimed: map[string]*redlock.Lock{}}
	j.opts = append(slices.Clone(config.Options), redlock.WithAutoExtend(), redlock.WithMinHold(config.MinHold))

	// TryAcquire checks its arguments before its context, and sends nothing if the context is done.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := locker.TryAcquire(ctx, config.Prefix+"job", config.TTL, j.opts...)
	if errors.Is(err, redlock.ErrInvalid) || errors.Is(err, redlock.ErrClosed) {
		return nil, fmt.Errorf("schedlock: %w", err)
	}
	return j, nil
}

// acquire acquires the job's lock, or reports that the tick is skipped.
func (j *Jobs) acquire(ctx context.Context, job string) (*redlock.Lock, error) {
	lock, err := j.locker.TryAcquire(ctx, j.config.Prefix+job, j.config.TTL, j.opts...)
	if err != nil {
		j.skip(ctx, job, err)
		return nil, err
	}
	return lock, nil
}

// skip reports a tick that this process does not run.
func (j *Jobs) skip(ctx context.Context, job string, err error) {
	level, because := slog.LevelError, "a tick was skipped: no lock"
	var votes *redlock.QuorumError
	switch {
	case ctx.Err() != nil:
		level, because = slog.LevelInfo, "a tick was skipped: the scheduler is stopping"
	case errors.As(err, &votes) && blockedForever(votes):
		because = "a tick was skipped: the lock's key has no expiry or is not a lock, so every tick is skipped until it is deleted"
	case votes != nil && votes.Split: // perhaps no process has the lock
	case errors.Is(err, redlock.ErrHeld):
		level, because = slog.LevelInfo, "a tick was skipped: the lock is held"
	}
	j.config.Logger.Log(ctx, level, because, "job", job, "error", err)
	if j.config.Skipped != nil {
		j.config.Skipped(job, err)
	}
}

// blockedForever reports whether keys that no release and no expiry removes leave no quorum.
func blockedForever(votes *redlock.QuorumError) bool {
	blocked := 0
	for _, v := range votes.Votes {
		var held *redlock.HeldError
		if errors.Is(v.Err, redlock.ErrForeignKey) || errors.As(v.Err, &held) && held.Remaining < 0 {
			blocked++
		}
	}
	return blocked > len(votes.Votes)-votes.Need
}

// release releases the job's lock, and reports a lock that ended before the job.
func (j *Jobs) release(ctx context.Context, job string, lock *redlock.Lock) error {
	err := lock.Release(ctx)
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrLost), errors.Is(err, redlock.ErrMaxHold):
		j.config.Logger.ErrorContext(ctx, "a job ended after its lock: it may have overlapped with the next tick", "job", job, "error", err)
		if j.config.Lost != nil {
			j.config.Lost(job, err)
		}
	default:
		j.config.Logger.WarnContext(ctx, "a job's lock could not be released: it expires", "job", job, "error", err)
	}
	return err
}
