package schedlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// DefaultTTL is the TTL of a job's lock unless Job.TTL is set.
const DefaultTTL = 30 * time.Second

// Job is the name of a job, and the settings of its lock.
type Job struct {
	// Name is the job's name. After Config.Prefix it is the name of the lock. It is required. Two
	// jobs with one name exclude each other.
	Name string

	// MinHold is how long the lock remains held after a tick began, even if the job ends sooner
	// (redlock.WithMinHold). It is required, and has the bounds of a TTL.
	//
	// It must be longer than the time between the first and the last process's attempt, plus the
	// node timeout (at most 500 ms by default). The processes attempt a tick at different times
	// because their clocks differ, and because a busy process is late. It must be shorter than the
	// interval between two ticks, by that same time. Otherwise a tick may be skipped in all
	// processes. Half of the interval is a good choice. A MinHold that is not shorter than the
	// interval is refused, as far as the interval is known.
	MinHold time.Duration

	// TTL is how long the lock of a process that crashed remains held, if that is longer than
	// MinHold. The lock is extended while the job runs, so TTL does not bound the job: 24 h do, unless
	// Options has redlock.WithMaxHold. The default is DefaultTTL. It has the bounds of
	// redlock.Locker.Acquire.
	TTL time.Duration

	// Wait is how long a tick waits for its lock (redlock.WithWait): for the last tick's run to end,
	// or for a quorum of nodes. By default a tick makes one attempt. Wait must be shorter than
	// MinHold, by the time between the first and the last process's attempt. Otherwise a process
	// that waits would run the tick again.
	Wait time.Duration

	// Options are further options of the lock, for example redlock.WithMaxHold, redlock.WithProgress
	// or redlock.WithStopMargin.
	Options []redlock.LockOption
}

// Config is what the jobs of a Jobs have in common. All of it is optional.
type Config struct {
	// Prefix is put before a job's name to form the name of its lock. By default the lock has the
	// job's name.
	Prefix string

	// Logger logs ticks that were skipped, and jobs that lost their lock. The default is
	// slog.Default(). The levels of a skipped tick are:
	//
	//   - Info: another process holds the lock, this process still runs the job, or the scheduler is
	//     stopping. A second entry, at level Debug, has the votes of all nodes.
	//   - Warn: the job's own minimum hold has not ended (ErrMinHold).
	//   - Error: everything else. The tick may have run in no process. A key that is not a lock, or
	//     has no expiry, skips every tick until it is deleted.
	Logger *slog.Logger

	// Skipped is called for every tick that this process does not run, before the scheduler
	// continues. redlock.HeldBy names the run of the job that holds the lock. If it names none, for example
	// with ErrMinHold, redlock.ErrNoQuorum or a split vote, the tick may have run in no process: raise an
	// alarm. The error matches redlock.ErrForeignKey if a key that is not a lock blocks the job. Calls may
	// be concurrent. It may be nil.
	Skipped func(job string, err error)

	// Lost is called after a job whose lock ended before the job did. The error matches
	// redlock.ErrLost, or redlock.ErrMaxHold. The job may have overlapped with the next tick, in
	// another process. Calls may be concurrent. It may be nil.
	Lost func(job string, err error)
}

var (
	// ErrMinHold is the error of a tick that came while the lock was still held by the minimum hold
	// of this process's own last run. Perhaps no process runs such a tick. If it happens at each tick,
	// Job.MinHold is not shorter than the interval.
	ErrMinHold = errors.New("schedlock: the job's own minimum hold has not ended")

	// ErrNoLock is the error of a task that gocron started without its lock, because its scheduler
	// has an elector (gocron.WithDistributedElector). The task was not run.
	ErrNoLock = errors.New("schedlock: the task was started without its lock: a scheduler with an elector uses no locks")
)

// Jobs adds jobs to schedulers, and acquires their locks. It is safe for concurrent use.
type Jobs struct {
	locker *redlock.Locker
	config Config
}

// New returns Jobs that acquire their locks from locker. The caller closes the locker, after its
// scheduler has stopped.
func New(locker *redlock.Locker, config Config) *Jobs {
	config.Logger = cmp.Or(config.Logger, slog.Default())
	return &Jobs{locker: locker, config: config}
}

// prepare checks the settings of a job. It sends nothing.
func (j *Jobs) prepare(settings Job) (*job, error) {
	switch {
	case settings.Name == "":
		return nil, fmt.Errorf("schedlock: %w: Job.Name is required", redlock.ErrInvalid)
	case settings.MinHold == 0:
		return nil, invalid(settings, "Job.MinHold is required")
	case settings.Wait >= settings.MinHold:
		return nil, invalid(settings, fmt.Sprintf("Job.Wait (%v) is not shorter than Job.MinHold (%v): a process that waits would run the tick again",
			settings.Wait, settings.MinHold))
	}
	settings.TTL = cmp.Or(settings.TTL, DefaultTTL)
	prepared := &job{Jobs: j, settings: settings, checked: make(chan struct{})}
	prepared.opts = append([]redlock.LockOption{}, settings.Options...)
	prepared.opts = append(prepared.opts, redlock.WithAutoExtend(), redlock.WithMinHold(settings.MinHold), redlock.WithWait(settings.Wait))

	// Acquire checks its arguments before its context, and sends nothing if the context is done.
	done, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := j.locker.Acquire(done, prepared.lockName(), settings.TTL, prepared.opts...)
	if errors.Is(err, redlock.ErrInvalid) || errors.Is(err, redlock.ErrClosed) {
		return nil, fmt.Errorf("schedlock: job %q: %w", settings.Name, err)
	}
	return prepared, nil
}

func invalid(of Job, what string) error {
	return fmt.Errorf("schedlock: job %q: %w: %s", of.Name, redlock.ErrInvalid, what)
}
