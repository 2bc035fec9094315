package schedlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/schedlock"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// inGocronBubble runs f with one process, 5 s before a tick.
func inGocronBubble(t *testing.T, f func(t *testing.T, q *redlocktest.Quorum, p *process)) {
	t.Helper()
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		f(t, q, newProcess(t, q, 0, schedlock.Job{MinHold: time.Second}))
	})
}

// elector elects every process, so the scheduler uses no locks.
type elector struct{}

func (elector) IsLeader(context.Context) error { return nil }

func TestATaskWithoutItsLockDoesNotRun(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		var failures []error
		s := p.gocronScheduler(t, gocron.WithDistributedElector(elector{}))
		_, err := p.AddGocron(s, gocron.CronJob(spec, true), p.job, func(context.Context, *redlock.Lock) error {
			t.Error("it ran without its lock")
			return nil
		}, gocron.WithEventListeners(
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failures = append(failures, err) })))
		require.NoError(t, err)
		s.Start()
		time.Sleep(interval)
		require.NoError(t, s.Shutdown())
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], schedlock.ErrNoLock)
		require.Len(t, p.skips(), 1)
		require.Equal(t, "report", p.skips()[0].job)
		require.ErrorIs(t, p.skips()[0].err, schedlock.ErrNoLock)
		require.Contains(t, p.logs.String(), "level=ERROR")
	})
}

// The name is given once, in the Job.
func TestAGocronJobHasTheNameOfTheJob(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		s := p.gocronScheduler(t)
		job, err := p.AddGocron(s, gocron.DurationJob(time.Hour), p.job, nil, gocron.WithName("other"))
		require.NoError(t, err)
		require.Equal(t, "report", job.Name())
		require.NoError(t, s.Shutdown())
	})
}

func TestASkippedTickReachesTheListenersOfGocron(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		release := q.HoldElsewhere(lockName, time.Minute)
		var refused []error
		stop := p.gocron(t, func(context.Context, *redlock.Lock) error {
			t.Error("it ran without its lock")
			return nil
		}, gocron.WithEventListeners(
			gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { refused = append(refused, err) })))
		time.Sleep(interval)
		stop()
		release()
		require.Len(t, refused, 1)
		require.ErrorIs(t, refused[0], redlock.ErrHeld)
	})
}

func TestATasksErrorReachesGocronAndItsPanicReleasesTheLock(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		mistake := errors.New("the task failed")
		var failures []error
		var panics []any
		first := true
		stop := p.gocron(t, func(context.Context, *redlock.Lock) error {
			if first {
				first = false
				return mistake
			}
			panic("the task panicked")
		}, gocron.WithEventListeners(
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failures = append(failures, err) }),
			gocron.AfterJobRunsWithPanic(func(_ uuid.UUID, _ string, value any) { panics = append(panics, value) }),
		))
		time.Sleep(2 * interval)
		stop()
		require.Len(t, failures, 2)
		require.ErrorIs(t, failures[0], mistake)
		require.Equal(t, []any{"the task panicked"}, panics)
		_, held := q.Holder(lockName)
		require.False(t, held)
		require.Empty(t, p.losses())
	})
}

func TestATaskStopsWithItsScheduler(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		began, ended := make(chan struct{}), make(chan error, 1)
		stop := p.gocron(t, func(ctx context.Context, _ *redlock.Lock) error {
			close(began)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		})
		await(t, began)
		stop()
		require.ErrorIs(t, await(t, ended), context.Canceled)
		synctest.Wait()
		require.Empty(t, p.losses())
		time.Sleep(time.Second)
		_, held := q.Holder(lockName)
		require.False(t, held, "the lock was released")
	})
}

func TestAWrongDefinitionAddsNoJob(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		s := p.gocronScheduler(t)
		_, err := p.AddGocron(s, gocron.DurationJob(0), p.job, nil)
		require.ErrorIs(t, err, gocron.ErrDurationJobIntervalZero)
		require.Empty(t, s.Jobs())
		require.NoError(t, s.Shutdown())
	})
}
