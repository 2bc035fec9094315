package schedlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/schedlock"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// inCronBubble runs f with one process, 5 s before a tick.
func inCronBubble(t *testing.T, f func(t *testing.T, q *redlocktest.Quorum, p *process)) {
	t.Helper()
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		f(t, q, newProcess(t, q, 0, schedlock.Job{MinHold: minHold}))
	})
}

func TestAJobThatPanicsReleasesItsLock(t *testing.T) {
	inCronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		var recovered bytes.Buffer
		recoverer := cron.Recover(slogLogger{slog.New(slog.NewTextHandler(&recovered, nil))})
		stop := p.cron(t, t.Context(), func(context.Context, *redlock.Lock) { panic("the job panicked") }, recoverer)
		time.Sleep(interval/2 + time.Second)
		_, held := q.Holder(lockName)
		require.True(t, held, "for the minimum hold")
		time.Sleep(minHold)
		_, held = q.Holder(lockName)
		require.False(t, held)
		stop()
		require.Contains(t, recovered.String(), "the job panicked")
		require.Empty(t, p.losses())
	})
}

// slogLogger is a logger for cron.
type slogLogger struct{ to *slog.Logger }

func (l slogLogger) Info(msg string, keysAndValues ...any) { l.to.Info(msg, keysAndValues...) }
func (l slogLogger) Error(err error, msg string, keysAndValues ...any) {
	l.to.Error(msg, append(keysAndValues, "error", err)...)
}

func TestACronJobEndsWithItsContextAndThenSkipsTicks(t *testing.T) {
	inCronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		ended := make(chan error, 1)
		stop := p.cron(t, ctx, func(ctx context.Context, _ *redlock.Lock) {
			if ctx.Value(key{}) != "value" {
				t.Error("its context has not the values of the context that was given")
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
		})
		time.Sleep(interval/2 + time.Second)
		cancel()
		require.ErrorIs(t, await(t, ended), context.Canceled)
		require.Empty(t, p.skips())
		time.Sleep(interval)
		stop()
		require.Len(t, p.skips(), 1)
		require.ErrorIs(t, p.skips()[0].err, context.Canceled)
		require.Contains(t, p.logs.String(), `level=INFO msg="a tick was skipped: the scheduler is stopping" job=report`)
		require.NotContains(t, p.logs.String(), "level=ERROR")
		require.Empty(t, p.losses())
	})
}

// added returns the job that AddCron adds to a scheduler that is never started.
func (p *process) added(t *testing.T, fn func(context.Context, *redlock.Lock)) cron.Job {
	t.Helper()
	c := cron.New(cron.WithParser(withSeconds))
	id, err := p.AddCron(t.Context(), c, spec, p.job, fn)
	require.NoError(t, err)
	return c.Entry(id).WrappedJob
}

func TestACronJobSeesTheEndOfItsContextAtOnce(t *testing.T) {
	inCronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		given, cancel := context.WithCancel(t.Context())
		ran := false
		c := cron.New(cron.WithParser(withSeconds))
		id, err := p.AddCron(given, c, spec, p.job, func(ctx context.Context, _ *redlock.Lock) {
			ran = true
			require.NoError(t, ctx.Err())
			cancel()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
		})
		require.NoError(t, err)
		c.Entry(id).WrappedJob.Run()
		require.True(t, ran)
	})
}

func TestTheLocksContextKnowsThatTheNameIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, q *redlocktest.Quorum) {
		locker := q.Locker()
		c := cron.New()
		id, err := schedlock.New(locker, schedlock.Config{}).AddCron(t.Context(), c, "@hourly", schedlock.Job{Name: "report", MinHold: time.Second},
			func(ctx context.Context, lock *redlock.Lock) {
				require.Equal(t, []string{"report"}, lock.Names())
				_, err := locker.TryAcquire(ctx, "report", time.Second)
				require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
			})
		require.NoError(t, err)
		c.Entry(id).WrappedJob.Run()
	})
}

func TestAWrongSpecAddsNoJob(t *testing.T) {
	inCronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		c := cron.New()
		_, err := p.AddCron(t.Context(), c, "every day", p.job, nil)
		require.ErrorContains(t, err, "every day")
		require.Empty(t, c.Entries())
	})
}
