package redlock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

func TestANilOptionIsSkipped(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(nil, WithFencing(), nil)
		k, err := l.TryAcquire(bg, "a", time.Minute, nil, WithAutoExtend(), nil)
		require.NoError(t, err)
		require.NotZero(t, k.Fence())
		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = l.Resume(bg, claim, nil)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		require.NoError(t, l.Do(bg, "a", time.Minute, func(context.Context, *Lock) error { return nil }, nil))
	})
	_, err := Open([]string{"http://h"}, nil)
	refuses(t, err, "URL 1 of 1")
}

// The methods of a Locker that New did not make must not panic. They did.
func TestTheZeroLockerIsClosed(t *testing.T) {
	var l Locker
	do := func(context.Context, *Lock) error { return errors.New("called") }
	for what, call := range map[string]func() error{
		"Acquire":       func() error { _, err := l.Acquire(bg, "a", time.Minute); return err },
		"TryAcquire":    func() error { _, err := l.TryAcquire(bg, "a", time.Minute, WithAutoExtend()); return err },
		"AcquireAll":    func() error { _, err := l.AcquireAll(bg, []string{"a", "b"}, time.Minute); return err },
		"TryAcquireAll": func() error { _, err := l.TryAcquireAll(bg, nil, 0); return err },
		"Do":            func() error { return l.Do(bg, "a", time.Minute, do) },
		"Resume": func() error {
			_, err := l.Resume(bg, Claim{Names: []string{"a"}, Token: "t", TTL: time.Minute})
			return err
		},
		"Resume none": func() error { _, err := l.Resume(bg, Claim{}); return err },
		"Inspect":     func() error { _, err := l.Inspect(bg, "a"); return err },
		"Healthy":     func() error { return l.Healthy(bg) },
		"Close":       func() error { return l.Close(bg) },
		"Close again": func() error { return new(Locker).Close(bg) },
	} {
		require.ErrorIs(t, call(), ErrClosed, what)
	}
	require.Equal(t, "locker over []", fmt.Sprintf("%+v", &l))
}

// All invalid options must be reported. Only the first one was.
func TestAllWrongOptionsAreReportedTogether(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		_, err := newOver(l.nodes, WithKeyPrefix("redlock:"), WithOwner("a b"), WithNodeTimeout(-1), WithDrift(2, 0),
			WithMaxTTL(1), WithClock(nil), WithRepair(), WithUnsafeNodes("x", "y"))
		refuses(t, err, "WithKeyPrefix", "WithOwner", "WithNodeTimeout", "WithDrift", "WithMaxTTL", "WithClock", "WithRepair",
			`no node ["x" "y"]`)
		requireTogether(t, err)
		_, err = New(nil, WithMaxTTL(1))
		refuses(t, err, "WithMaxTTL", "no nodes")
		requireTogether(t, err)
		_, err = l.Acquire(bg, "", 1, WithMaxHold(-1), WithMinHold(-1), WithProgress(0), WithStopMargin(0))
		refuses(t, err, "WithMaxHold", "WithMinHold", "WithProgress", "WithStopMargin", "TTL of 1ns", "the name is empty")
		requireTogether(t, err)
		_, err = l.Acquire(bg, "a", time.Minute, WithProgress(time.Second), WithStopMargin(time.Hour), WithMaxHold(time.Millisecond),
			WithMinHold(2*time.Minute))
		refuses(t, err, "WithProgress needs", "WithStopMargin(1h", "WithMaxHold(1ms) is less", "WithMaxHold(1ms) is not more")
		requireTogether(t, err)
	})
}

// requireTogether checks that an error has one prefix and one line.
func requireTogether(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, 1, strings.Count(err.Error(), ErrInvalid.Error()), err)
	require.Contains(t, err.Error(), "; ")
	require.True(t, reflect.TypeOf(err).Comparable(), "as callers expect of errors")
	require.NotContains(t, err.Error(), "\n")
}

func TestWrongURLsAreNamedByTheirPositions(t *testing.T) {
	_, err := Open([]string{"redis://:hunter2@h:1", "redis://:hunter2@h:x", "redis://:hunter2@i", "", "redis://hunter2@h"}, WithMaxTTL(1))
	refuses(t, err, "URL 2 of 5: ", "URL 4 of 5: pool: the URL of a master: empty URL", "URL 5 of 5: ", "WithMaxTTL")
	requireTogether(t, err)
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "URL 1")
	require.NotContains(t, err.Error(), "URL 3")
	for _, empty := range []string{"", " "} {
		_, err = Open([]string{empty})
		refuses(t, err, "empty URL: the variable that it comes from may be unset")
	}
}

func TestErrorsStandOnOneLineAndBeginWithTheCauseOfTheContext(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		for _, n := range nodes {
			n.script = answerTo(command.Acquire, command.Reply{Outcome: command.Failed, Err: errors.Join(errors.New("one"), errors.New("two"))})
		}
		_, err := l.TryAcquire(bg, "a", time.Minute)
		require.ErrorContains(t, err, "one; two")
		require.NotContains(t, err.Error(), "\n")

		cause := errors.Join(errors.New("shut"), errors.New("down"))
		ctx, cancel := context.WithCancelCause(bg)
		time.AfterFunc(time.Second, func() { cancel(cause) })
		_, err = l.Acquire(ctx, "a", time.Minute)
		matches(t, err, cause, ErrNoQuorum)
		require.NotContains(t, err.Error(), "\n")
		require.Contains(t, err.Error(), `redlock: acquire "a": shut; down; until then: `)
	})
	inFakes(t, 3, func(t *testing.T, _ []*fakeNode, l *Locker) {
		own := errors.New("mine\nas well")
		err := l.Do(bg, "a", time.Second, func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			return own
		}, WithMaxHold(time.Millisecond))
		matches(t, err, ErrMaxHold, own)
		require.NotContains(t, err.Error(), "\n")
		require.True(t, strings.HasPrefix(err.Error(), ErrMaxHold.Error()), err)
	})
}
