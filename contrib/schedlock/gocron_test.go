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
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		time.Sleep(interval / 2) // virtual
		f(t, q, newProcess(t, q, 0, schedlock.Config{MinHold: time.Second}))
	})
}

func TestAnOrdinaryTaskRunsUnderItsJobsName(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		held := 0
		stop := p.gocron(t, gocron.NewTask(func() {
			if _, is := q.Holder("plain"); is {
				held++
			}
		}), gocron.WithName("plain"))
		time.Sleep(2 * interval)
		stop()
		require.Equal(t, 2, held)
	})
}

func TestATaskWithoutItsLockDoesNotRun(t *testing.T) {
	for name, opts := range map[string][]gocron.JobOption{
		"no name":      nil,
		"another name": {gocron.WithName("other")},
		"no locker":    {gocron.WithName("report"), gocron.WithDisabledDistributedJobLocker(true)},
	} {
		t.Run(name, func(t *testing.T) {
			inGocronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
				var failures []error
				task := p.GocronTask("report", func(context.Context, *redlock.Lock) error {
					t.Error("it ran without its lock")
					return nil
				})
				stop := p.gocron(t, task, append(opts, gocron.WithEventListeners(
					gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failures = append(failures, err) }),
				))...)
				time.Sleep(interval)
				stop()
				require.Len(t, failures, 1)
				require.ErrorIs(t, failures[0], schedlock.ErrNoLock)
				require.Len(t, p.skips(), 1)
				require.Equal(t, "report", p.skips()[0].job)
				require.ErrorIs(t, p.skips()[0].err, schedlock.ErrNoLock)
				require.Contains(t, p.logs.String(), "level=ERROR")
			})
		})
	}
}

func TestATaskNeverRunsUnderTheLockOfAnEarlierTick(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		// gocron acquires the lock of this tick, and does not start its task.
		stop := p.gocron(t, p.GocronTask("report", func(context.Context, *redlock.Lock) error { return nil }),
			gocron.WithName("report"), gocron.WithEventListeners(
				gocron.BeforeJobRunsSkipIfBeforeFuncErrors(func(uuid.UUID, string) error { return errors.New("not now") })))
		time.Sleep(interval)
		stop()
		require.Empty(t, p.skips())

		var failures []error
		stop = p.gocron(t, p.GocronTask("report", func(context.Context, *redlock.Lock) error {
			t.Error("it ran without its lock")
			return nil
		}), gocron.WithName("report"), gocron.WithDisabledDistributedJobLocker(true), gocron.WithEventListeners(
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failures = append(failures, err) })))
		time.Sleep(interval)
		stop()
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], schedlock.ErrNoLock)
	})
}

func TestTwoTasksNeverRunUnderOneLock(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		ended := make(chan struct{})
		stop := p.gocron(t, p.GocronTask("report", func(context.Context, *redlock.Lock) error {
			defer close(ended)
			time.Sleep(3 * interval / 2)
			return nil
		}), gocron.WithName("report"))
		time.Sleep(interval)
		var failures []error
		stopOther := p.gocron(t, p.GocronTask("report", func(context.Context, *redlock.Lock) error {
			t.Error("it ran under the lock of the other task")
			return nil
		}), gocron.WithName("report"), gocron.WithDisabledDistributedJobLocker(true), gocron.WithEventListeners(
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failures = append(failures, err) })))
		await(t, ended)
		synctest.Wait()
		stopOther()
		stop()
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], schedlock.ErrNoLock)
	})
}

func TestASkippedTickReachesTheListenersOfGocron(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		release := q.HoldElsewhere("report", time.Minute)
		var refused []error
		stop := p.gocron(t, p.GocronTask("report", func(context.Context, *redlock.Lock) error {
			t.Error("it ran without its lock")
			return nil
		}), gocron.WithName("report"), gocron.WithEventListeners(
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
		stop := p.gocron(t, p.GocronTask("report", func(context.Context, *redlock.Lock) error {
			if first {
				first = false
				return mistake
			}
			panic("the task panicked")
		}), gocron.WithName("report"), gocron.WithEventListeners(
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failures = append(failures, err) }),
			gocron.AfterJobRunsWithPanic(func(_ uuid.UUID, _ string, value any) { panics = append(panics, value) }),
		))
		time.Sleep(2 * interval)
		stop()
		require.Len(t, failures, 2)
		require.ErrorIs(t, failures[0], mistake)
		require.Equal(t, []any{"the task panicked"}, panics)
		_, held := q.Holder("report")
		require.False(t, held)
		require.Empty(t, p.losses())
	})
}

func TestATaskStopsWithItsScheduler(t *testing.T) {
	inGocronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		began, ended := make(chan struct{}), make(chan error, 1)
		stop := p.gocron(t, p.GocronTask("report", func(ctx context.Context, _ *redlock.Lock) error {
			close(began)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}), gocron.WithName("report"))
		await(t, began)
		stop()
		require.ErrorIs(t, await(t, ended), context.Canceled)
		synctest.Wait()
		require.Empty(t, p.losses())
		time.Sleep(time.Second)
		_, held := q.Holder("report")
		require.False(t, held, "the lock was released")
	})
}
