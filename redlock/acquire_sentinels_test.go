package redlock

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// sentinels are all errors that a caller may test for. A node's own trouble never matches the
// caller's context or a time-out of the caller's own (H111).
var sentinels = []error{
	ErrHeld, ErrNoQuorum, ErrTooLate, ErrLost, ErrReleased, ErrDetached, ErrMaxHold, ErrAlreadyHeld, ErrClosed, ErrInvalid,
	ErrForeignKey, ErrNodeTimeout, ErrUnfit, context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, net.ErrClosed, io.EOF,
}

// matches asserts that err is each of want and none of the other sentinels.
func matches(t *testing.T, err error, want ...error) {
	t.Helper()
	for _, s := range sentinels {
		wanted := false
		for _, w := range want {
			wanted = wanted || w == s //nolint:errorlint // this compares two sentinels
		}
		require.Equal(t, wanted, errors.Is(err, s), "%q as %q", err, s)
	}
}

// H111: every ending of an acquisition matches its own sentinels and no others.
func TestEveryEndingOfAnAcquisitionMatchesItsOwnSentinels(t *testing.T) {
	for name, c := range map[string]struct {
		ending func(fl *testbed, l *Locker) error
		want   []error
	}{
		"held": {func(fl *testbed, l *Locker) error {
			fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Minute) })
			return tried(l)
		}, []error{ErrHeld}},
		"two stopped": {func(fl *testbed, l *Locker) error { stopTwo(fl); synctest.Wait(); return tried(l) }, []error{ErrNoQuorum}},
		"two stopped, later": {func(fl *testbed, l *Locker) error {
			stopTwo(fl)
			time.Sleep(time.Minute)
			return tried(l)
		}, []error{ErrNoQuorum}},
		"two frozen": {func(fl *testbed, l *Locker) error { freezeTwo(fl); return tried(l) }, []error{ErrNoQuorum, ErrNodeTimeout}},
		"silent beyond the hard timeout": {func(fl *testbed, l *Locker) error {
			freezeTwo(fl)
			_ = tried(l)
			time.Sleep(6 * time.Second)
			return tried(l)
		}, []error{ErrNoQuorum}},
		"dials hang beyond their timeout": {func(fl *testbed, l *Locker) error {
			freezeTwo(fl)
			_ = tried(l)
			time.Sleep(30 * time.Second)
			return tried(l)
		}, []error{ErrNoQuorum}},
		"connections cut under way": {func(fl *testbed, l *Locker) error {
			fl.each(func(m *fakeredis.Master) { m.Clients()[0].CutReply(1) })
			return tried(l)
		}, []error{ErrNoQuorum}},
		"nodes closed under way": {func(fl *testbed, l *Locker) error {
			freezeTwo(fl)
			time.AfterFunc(10*time.Millisecond, func() { _ = l.nodes[0].Close(); _ = l.nodes[2].Close() })
			return tried(l)
		}, []error{ErrNoQuorum}},
		"too late": {func(fl *testbed, _ *Locker) error {
			l := fl.locker(WithNodeTimeout(900 * time.Millisecond))
			fl.each(func(m *fakeredis.Master) { m.SetDelay(490 * time.Millisecond) })
			_, err := l.TryAcquire(bg, "a", time.Second, WithStopMargin(500*time.Millisecond))
			return err
		}, []error{ErrTooLate}},
		"foreign": {func(fl *testbed, l *Locker) error {
			fl.each(func(m *fakeredis.Master) { m.PushList("a") })
			return tried(l)
		}, []error{ErrForeignKey}},
		"unfit": {func(fl *testbed, l *Locker) error {
			fl.each(func(m *fakeredis.Master) { m.SetInfo("role", "slave") })
			time.Sleep(time.Minute)
			return tried(l)
		}, []error{ErrNoQuorum, ErrUnfit}},
		"deadline": {func(fl *testbed, l *Locker) error {
			freezeTwo(fl)
			ctx, cancel := context.WithTimeout(bg, time.Millisecond)
			defer cancel()
			_, err := l.TryAcquire(ctx, "a", time.Minute)
			return err
		}, []error{context.DeadlineExceeded, ErrNoQuorum}},
		"cancelled while held": {func(fl *testbed, l *Locker) error {
			fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Minute) })
			ctx, cancel := context.WithCancel(bg)
			time.AfterFunc(time.Second, cancel)
			_, err := l.Acquire(ctx, "a", time.Minute)
			return err
		}, []error{context.Canceled, ErrHeld}},
		"already held": {func(_ *testbed, l *Locker) error {
			k, _ := l.Acquire(bg, "a", time.Minute)
			_, err := l.Acquire(k.Context(), "a", time.Minute)
			return err
		}, []error{ErrAlreadyHeld}},
		"closed": {func(fl *testbed, l *Locker) error { fl.close(l); return tried(l) }, []error{ErrClosed}},
		"closed while waiting": {func(fl *testbed, l *Locker) error {
			fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Minute) })
			time.AfterFunc(time.Second, func() { _ = l.Close(bg) })
			_, err := l.Acquire(bg, "a", time.Minute)
			return err
		}, []error{ErrClosed}},
		"invalid": {func(_ *testbed, l *Locker) error { _, err := l.Acquire(bg, "a", 0); return err }, []error{ErrInvalid}},
		"look without a quorum": {func(fl *testbed, l *Locker) error {
			freezeTwo(fl)
			_, err := l.Inspect(bg, "a")
			return err
		}, []error{ErrNoQuorum, ErrNodeTimeout}},
		"ill": {func(fl *testbed, l *Locker) error { freezeTwo(fl); return l.Healthy(bg) }, []error{ErrNoQuorum, ErrNodeTimeout}},
		"lost": {func(_ *testbed, l *Locker) error {
			k, _ := l.Acquire(bg, "a", time.Second)
			time.Sleep(time.Second)
			return k.Release(bg)
		}, []error{ErrLost}},
		"release unanswered": {func(fl *testbed, l *Locker) error {
			k, _ := l.Acquire(bg, "a", time.Minute)
			fl.answered() // or else a node that was sent nothing is spared
			freezeTwo(fl)
			return k.Release(bg)
		}, []error{ErrNoQuorum, ErrNodeTimeout}},
		"extended after the release": {func(_ *testbed, l *Locker) error {
			k, _ := l.Acquire(bg, "a", time.Minute)
			_ = k.Release(bg)
			return k.Extend(bg, time.Minute)
		}, []error{ErrReleased}},
		"extended without a quorum": {func(fl *testbed, l *Locker) error {
			k, _ := l.Acquire(bg, "a", time.Minute)
			fl.answered()
			freezeTwo(fl)
			return k.Extend(bg, time.Minute)
		}, []error{ErrNoQuorum, ErrNodeTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				err := c.ending(fl, fl.locker())
				matches(fl.t, err, c.want...)
				oneLine(fl.t, err)
			})
		})
	}
}

func tried(l *Locker) error {
	_, err := l.TryAcquire(bg, "a", time.Minute)
	return err
}
