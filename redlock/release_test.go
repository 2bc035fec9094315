package redlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
)

// docs/dev/hazards.md H18.
func TestAReleaseAfterTheEndLeavesTheNextHoldersKeysAlone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := takeAtOnce(t, fl.locker(), "a", time.Second)
		pass(2 * time.Second)
		began := time.Now()
		next := takeAtOnce(t, fl.locker(), "a", 10*time.Second)
		err := k.Release(ctx)
		var lost *LostError
		require.ErrorAs(t, err, &lost)
		require.ErrorIs(t, err, ErrLost)
		require.Equal(t, []string{"a"}, lost.Names)
		require.Equal(t, 2*time.Second-worth(time.Second), lost.For)
		require.Equal(t, LossExpired, lost.Reason)
		require.Equal(t, 2*time.Second, lost.Overlap, "since the start of the acquisition")
		require.EqualError(t, err, `redlock: lock lost: "a": its validity is over, and nothing extended it; it ended 1.017s ago; `+
			"another client may have held it for up to 2s")
		fl.answered()
		for _, m := range fl.masters {
			requireTTL(t, m, "a", 10*time.Second, began)
		}
		require.NoError(t, next.Release(ctx))
	})
}

// docs/dev/hazards.md H18: the holder's keys are gone, and it releases without having noticed.
func TestAReleaseWhileAnotherHoldsItDeletesNothingAndSaysLost(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		for _, m := range fl.masters {
			m.Set("a", "another's token", time.Minute)
		}
		err := k.Release(context.Background())
		require.ErrorIs(t, err, ErrLost)
		var lost *LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, LossGone, lost.Reason)
		fl.heldEverywhere("a")
	})
}

// docs/dev/hazards.md H19.
func TestAReleaseIsSentThoughItsContextIsDone(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, k.Release(ctx))
		fl.releasedEverywhere("a")
	})
}

// docs/dev/hazards.md H21, docs/dev/rules.md rule 10: the end of its context does not cut a release
// short, because the node timeout bounds it. Close ends with its context.
func TestTheEndOfTheContextCutsCloseShortAndNoRelease(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		const trip, patience = 100 * time.Millisecond, 10 * time.Millisecond
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		fl.each(func(m *fakeredis.Master) { m.SetDelay(trip) })
		ctx, cancel := context.WithTimeout(bg, patience)
		defer cancel()
		require.Equal(t, trip, elapsed(func() { require.NoError(t, k.Release(ctx)) }))
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		fl.releasedEverywhere("a")

		held := take(t, l, "b", time.Minute)
		ctx, cancel = context.WithTimeout(bg, patience)
		defer cancel()
		require.Equal(t, patience, elapsed(func() { matches(t, l.Close(ctx), context.DeadlineExceeded) }))
		require.ErrorIs(t, held.Release(ctx), pool.ErrClosed)
	})
}

func TestTheThreeEndingsOfARelease(t *testing.T) {
	granted, refused := command.Reply{Outcome: command.Granted}, command.Reply{Outcome: command.Refused}
	failed := command.Reply{Outcome: command.Failed, Err: errors.New("MISCONF")}
	unknown := command.Reply{Outcome: command.Unknown, Err: errors.New("cut off")}
	for name, test := range map[string]struct {
		replies [3]command.Reply
		want    error
	}{
		"all":                          {[3]command.Reply{granted, granted, granted}, nil},
		"a quorum beside a refusal":    {[3]command.Reply{refused, granted, granted}, nil},
		"a quorum beside a failure":    {[3]command.Reply{granted, failed, granted}, nil},
		"a quorum beside an unknown":   {[3]command.Reply{granted, granted, unknown}, nil},
		"all refuse":                   {[3]command.Reply{refused, refused, refused}, ErrLost},
		"a quorum refuses":             {[3]command.Reply{refused, granted, refused}, ErrLost},
		"a quorum refuses, one failed": {[3]command.Reply{failed, refused, refused}, ErrLost},
		"one of each":                  {[3]command.Reply{granted, refused, unknown}, ErrNoQuorum},
		"one and failures":             {[3]command.Reply{granted, failed, failed}, ErrNoQuorum},
		"a refusal and failures":       {[3]command.Reply{refused, failed, unknown}, ErrNoQuorum},
		"all fail":                     {[3]command.Reply{failed, failed, failed}, ErrNoQuorum},
		"all unknown":                  {[3]command.Reply{unknown, unknown, unknown}, ErrNoQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
				k := take(t, l, "a", 10*time.Second)
				require.NoError(t, k.Extend(context.Background(), 20*time.Second))
				for i, n := range nodes {
					n.script = answerTo(command.Release, test.replies[i])
				}
				err := k.Release(context.Background())
				require.ErrorIs(t, context.Cause(k.Context()), ErrReleased)
				if test.want == nil {
					require.NoError(t, err)
					return
				}
				for _, sentinel := range []error{ErrLost, ErrNoQuorum} {
					require.Equal(t, errors.Is(test.want, sentinel), errors.Is(err, sentinel))
				}
				var lost *LostError
				if errors.As(err, &lost) {
					require.Equal(t, LossGone, lost.Reason)
					require.Len(t, lost.Votes, 3)
					return
				}
				var qe *QuorumError
				require.ErrorAs(t, err, &qe)
				require.Equal(t, 20*time.Second, qe.Expires, "the longest TTL that was given")
			})
		})
	}
}

// docs/dev/hazards.md H21: a release that no node answers.
func TestAReleaseThatNoNodeAnswersReportsWhenTheKeysExpire(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker()
		k := take(t, l, "a", 2*time.Second)
		for _, m := range fl.masters {
			m.Freeze()
		}
		began := fl.clock.Now()
		err := k.Release(ctx)
		require.Equal(t, 500*time.Millisecond, fl.clock.Now().Sub(began), "the node timeout, a quarter of the TTL")
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNodeTimeout)
		require.NotErrorIs(t, err, context.DeadlineExceeded) // docs/dev/hazards.md H111
		require.ErrorContains(t, err, "leftover keys expire within 2s")
		require.Equal(t, err, k.Release(ctx), "the first result")
		for _, m := range fl.masters {
			m.Unfreeze()
		}
		fl.answered()
		require.Zero(t, fl.keys("a"), "the release was under way all the time")
	})
}

func TestASecondReleaseReturnsTheFirstResultAndSendsNothing(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker()
		for _, spoil := range []bool{false, true} {
			k := take(t, l, "a", 10*time.Second)
			for _, m := range fl.masters {
				if spoil {
					m.Del("a")
				}
				m.ForgetLog()
			}
			results := make(chan error, 10)
			for range cap(results) {
				go func() { results <- k.Release(ctx) }()
			}
			first := k.Release(ctx)
			require.Equal(t, spoil, errors.Is(first, ErrLost))
			for range cap(results) {
				require.Equal(t, first, <-results)
			}
			fl.answered()
			require.Equal(t, 3, fl.orders(command.Release))
			require.Equal(t, first, k.Release(ctx))
			fl.answered()
			require.Equal(t, 3, fl.orders(command.Release))
		}
	})
}

func TestARefusedReleaseOfSeveralNamesFreesThoseThatAreOurs(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k, err := fl.locker().TryAcquireAll(context.Background(), []string{"b", "a"}, 10*time.Second)
		require.NoError(t, err)
		fl.answered()
		for _, m := range fl.masters {
			m.Set("a", "another's token", time.Minute)
		}
		require.ErrorIs(t, k.Release(context.Background()), ErrLost)
		fl.heldEverywhere("a")
		require.Zero(t, fl.keys("b"))
	})
}
