package schedlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
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
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		time.Sleep(interval / 2) // virtual
		f(t, q, newProcess(t, q, 0, schedlock.Config{MinHold: minHold}))
	})
}

func TestAWrappedJobRunsEachTickOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		time.Sleep(interval / 2) // virtual
		var ran runs
		var stops []func()
		for _, ahead := range offsets {
			p := newProcess(t, q, ahead, schedlock.Config{MinHold: minHold})
			job := cron.FuncJob(func() { ran.add(p) })
			stops = append(stops, p.cron(t, cron.NewChain(p.CronWrapper(t.Context(), "report")).Then(job)))
		}
		time.Sleep(3 * interval)
		for _, stop := range stops {
			stop()
		}
		ran.requireOnce(t, 3)
	})
}

func TestAJobThatPanicsReleasesItsLock(t *testing.T) {
	inCronBubble(t, func(t *testing.T, q *redlocktest.Quorum, p *process) {
		var recovered bytes.Buffer
		recoverer := cron.Recover(slogLogger{slog.New(slog.NewTextHandler(&recovered, nil))})
		job := cron.FuncJob(func() { panic("the job panicked") })
		stop := p.cron(t, cron.NewChain(recoverer, p.CronWrapper(t.Context(), "report")).Then(job))
		time.Sleep(interval/2 + time.Second)
		_, held := q.Holder("report")
		require.True(t, held, "for the minimum hold")
		time.Sleep(minHold)
		_, held = q.Holder("report")
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
		stop := p.cron(t, p.CronJob(ctx, "report", func(ctx context.Context, _ *redlock.Lock) {
			if ctx.Value(key{}) != "value" {
				t.Error("its context has not the values of the context that was given")
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
		}))
		time.Sleep(interval/2 + time.Second)
		cancel()
		require.ErrorIs(t, await(t, ended), context.Canceled)
		require.Empty(t, p.skips())
		time.Sleep(interval)
		stop()
		require.Len(t, p.skips(), 1)
		require.ErrorIs(t, p.skips()[0].err, context.Canceled)
		require.NotContains(t, p.logs.String(), "level=ERROR")
		require.Empty(t, p.losses())
	})
}

func TestACronJobSeesTheEndOfItsContextAtOnce(t *testing.T) {
	inCronBubble(t, func(t *testing.T, _ *redlocktest.Quorum, p *process) {
		given, cancel := context.WithCancel(t.Context())
		ran := false
		p.CronJob(given, "report", func(ctx context.Context, _ *redlock.Lock) {
			ran = true
			require.NoError(t, ctx.Err())
			cancel()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
		}).Run()
		require.True(t, ran)
	})
}

func TestTheLocksContextKnowsThatTheNameIsHeld(t *testing.T) {
	inCronBubble(t, func(t *testing.T, q *redlocktest.Quorum, _ *process) {
		locker := q.Locker()
		jobs, err := schedlock.New(locker, schedlock.Config{MinHold: time.Second})
		require.NoError(t, err)
		jobs.CronJob(t.Context(), "report", func(ctx context.Context, lock *redlock.Lock) {
			require.Equal(t, []string{"report"}, lock.Names())
			_, err := locker.TryAcquire(ctx, "report", time.Second)
			require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
		}).Run()
	})
}
