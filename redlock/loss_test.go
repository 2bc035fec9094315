package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/lease"
)

// lostCause returns why a lock's context has ended. The error is immutable, so it is what a user sees.
func lostCause(t *testing.T, k *Lock) *LostError {
	t.Helper()
	cause := context.Cause(k.Context())
	require.ErrorIs(t, k.Err(), cause, "the same end")
	var lost *LostError
	require.ErrorAs(t, cause, &lost)
	require.Equal(t, lost.Reason != LossMaxHold, errors.Is(cause, ErrLost))
	require.Equal(t, lost.Reason == LossMaxHold, errors.Is(cause, ErrMaxHold))
	require.Equal(t, k.Names(), lost.Names)
	return lost
}

// ends returns the log's lines about locks that ended under their holders.
func (b *logged) ends() (lines []string) {
	synctest.Wait()
	for _, line := range b.lines() {
		if strings.Contains(line, "ended under its holder") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestThreeDisastersAreToldApartByOneLineOfTheLog(t *testing.T) {
	const ttl = 6 * time.Second
	for name, c := range map[string]struct {
		reason LossReason
		cause  string // as a part of the line
		happen func(fl *testbed)
	}{
		"no quorum for 8 s": {LossNoQuorum, `no quorum has confirmed it since 2000-01-01T00:00:0`, func(fl *testbed) {
			fl.masters[0].Freeze()
			fl.masters[1].Freeze()
			pass(8 * time.Second)
		}},
		"FLUSHALL on all servers": {LossGone, `of 3 nodes no longer hold it [n`, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.FlushAll() })
			pass(8 * time.Second)
		}},
		"a holder that was stopped for 7 s": {LossPaused, `this process did not run for `, func(fl *testbed) {
			fl.clock.Advance(7 * time.Second)
			pass(time.Second)
		}},
		"no quorum, and a holder that was stopped when the validity was almost over": {LossNoQuorum, `no quorum has confirmed it since `, func(fl *testbed) {
			fl.masters[0].Freeze()
			fl.masters[1].Freeze()
			pass(5 * time.Second)
			fl.clock.Advance(7 * time.Second)
			pass(time.Second)
		}},
		"a machine that was suspended for 7 s": {LossPaused, `this process did not run for `, func(fl *testbed) {
			fl.clock.Suspend(7 * time.Second)
			pass(time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			inBubbles(t, 3, func(fl *testbed) {
				fl.lateAt(2)
				k := take(t, fl.locker(WithLogger(log.logger()), WithOwner("me")), "a", ttl, WithAutoExtend())
				ctx := k.Context()
				require.NoError(t, k.Err())
				c.happen(fl)
				fl.answered()
				require.Error(t, ctx.Err())
				lost := lostCause(t, k)
				require.Equal(t, c.reason, lost.Reason)
				require.Contains(t, lost.Error(), "redlock: lock lost: "+quoted(k.Names())+": ")
				require.Contains(t, lost.Error(), c.cause)
				require.GreaterOrEqual(t, lost.Overlap, lost.For)
				require.Equal(t, c.reason == LossPaused, lost.Paused > 5*time.Second && lost.Paused <= ttl, "until the end of the validity: %v", lost.Paused)
				require.Equal(t, c.reason == LossPaused, lost.Votes == nil)
				lines := log.ends()
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], "owner=me id="+k.ID())
				require.Contains(t, lines[0], fmt.Sprintf("reason=%s ", c.reason))
				require.Contains(t, lines[0], c.cause)
				require.Contains(t, lines[0], "another client may have held it for up to ")
				log.newLines(t)
			})
		})
	}
}

func TestEveryReasonOfALossIsTold(t *testing.T) {
	for reason, c := range map[LossReason]struct {
		opts []LockOption
		lose func(fl *testbed, l *Locker)
	}{
		LossExpired:    {nil, func(*testbed, *Locker) {}},
		LossMaxHold:    {[]LockOption{WithAutoExtend(), WithMaxHold(5 * time.Second)}, func(*testbed, *Locker) {}},
		LossNoProgress: {[]LockOption{WithAutoExtend(), WithProgress(time.Second)}, func(*testbed, *Locker) {}},
		LossClosed: {[]LockOption{WithAutoExtend()}, func(fl *testbed, l *Locker) {
			ctx, cancel := context.WithCancel(bg)
			cancel()
			require.Error(fl.t, l.Close(ctx))
		}},
	} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				k := take(t, l, "a", 9*time.Second, c.opts...)
				c.lose(fl, l)
				pass(10 * time.Second)
				var lost *LostError
				require.ErrorAs(t, k.Release(bg), &lost)
				require.Equal(t, reason, lost.Reason)
				require.Empty(t, lost.Votes)
				require.NotEmpty(t, lost.Why())
				if reason == LossClosed {
					require.ErrorIs(t, context.Cause(k.Context()), ErrClosed)
					require.ErrorIs(t, k.Err(), ErrClosed, "that ended its context")
				} else {
					require.Equal(t, reason, lostCause(t, k).Reason)
				}
			})
		})
	}
}

// The words are those of package lease, which decides.
func TestEveryLossHasItsReason(t *testing.T) {
	reasons := map[lease.Loss]LossReason{
		lease.Expired: LossExpired, lease.Gone: LossGone, lease.NoQuorum: LossNoQuorum, lease.Paused: LossPaused,
		lease.NoProgress: LossNoProgress, lease.Closed: LossClosed, lease.MaxHold: LossMaxHold,
	}
	for loss := lease.Expired; loss <= lease.MaxHold; loss++ {
		require.Equal(t, string(reasons[loss]), loss.String())
	}
}

// Another client takes the name at the instant at which the nodes lose it, and the holder notices at its
// next extension.
func TestALossSaysForHowLongAnotherClientMayHaveHeldTheLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(2) // the others forget it
		log := &logged{}
		l, other := fl.locker(WithLogger(log.logger())), fl.locker(WithOwner("bob"))
		var taken time.Time
		var overlap time.Duration
		err := l.Do(bg, "a", 30*time.Second, func(ctx context.Context, k *Lock) error {
			fl.answered()
			pass(12 * time.Second) // one extension was confirmed after a third of the validity
			for _, m := range fl.masters[:2] {
				m.FlushAll()
			}
			taken = time.Now()
			_, err := other.TryAcquire(bg, "a", time.Minute)
			require.NoError(t, err)
			<-ctx.Done()
			overlap = time.Since(taken)
			require.Greater(t, overlap, 7*time.Second-lateness())
			require.GreaterOrEqual(t, lostCause(t, k).Overlap, overlap)
			pass(time.Second) // the work takes a second to stop
			return nil
		})
		var lost *LostError
		require.ErrorAs(t, err, &lost)
		require.GreaterOrEqual(t, lost.For, time.Second)
		require.Less(t, lost.For, 2*time.Second)
		require.GreaterOrEqual(t, lost.Overlap, overlap+time.Second)
		require.Less(t, lost.Overlap, 12*time.Second, "and not since the acquisition")
		require.True(t, lost.Confirmed.Before(taken))
		require.Equal(t, "bob", lost.Holder.Owner)
		require.Contains(t, err.Error(), `now held by "bob" for `)
		require.Contains(t, log.ends()[0], `now held by \"bob\" for `)
	})
}

// Every node may have said who holds the name now.
func TestAnErrorOfCheckNamesTheNextHolderOnce(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Minute)
		fl.each((*fakeredis.Master).FlushAll)
		take(t, fl.locker(WithOwner("bob")), "a", time.Minute)
		err := k.Check(bg)
		require.Contains(t, err.Error(), `nodes no longer hold it [n1: refused; n2: refused; n3: refused]; now held by "bob" for `)
		require.Equal(t, 1, strings.Count(err.Error(), "bob"))
		var lost *LostError
		require.ErrorAs(t, err, &lost)
		var held *HeldError
		require.ErrorAs(t, lost.Votes[0].Err, &held, "the votes keep it")
	})
}

// The time counts from before the first byte of the request by which a quorum last confirmed the lock,
// however long the answers took.
func TestAnotherClientMayHaveHeldTheLockSinceTheLastRequestThatAQuorumConfirmed(t *testing.T) {
	late.LeaveOut(t, "all masters are late")
	for name, confirm := range map[string]func(t *testing.T, l *Locker, k *Lock) (confirmed *Lock){
		"Extend": func(t *testing.T, _ *Locker, k *Lock) *Lock {
			t.Helper()
			require.NoError(t, k.Extend(bg, 20*time.Second))
			return k
		},
		"Check": func(t *testing.T, _ *Locker, k *Lock) *Lock {
			t.Helper()
			require.NoError(t, k.Check(bg))
			return k
		},
		"Resume": func(t *testing.T, l *Locker, k *Lock) *Lock {
			t.Helper()
			claim, err := k.Detach()
			require.NoError(t, err)
			k, err = l.Resume(bg, claim)
			require.NoError(t, err)
			return k
		},
		"Acquire": func(t *testing.T, l *Locker, _ *Lock) *Lock {
			t.Helper()
			return take(t, l, "b", 20*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				k := take(t, l, "a", 20*time.Second)
				fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Millisecond) })
				pass(2 * time.Second)
				began, wall := fl.clock.Now(), time.Now()
				k = confirm(t, l, k)
				require.NotEqual(t, began, fl.clock.Now(), "it took a round trip")
				pass(2 * time.Second)
				fl.each(func(m *fakeredis.Master) { m.FlushAll() })
				require.ErrorIs(t, k.Extend(bg, 20*time.Second), ErrLost)
				pass(3 * time.Second)
				var lost *LostError
				require.ErrorAs(t, k.Release(bg), &lost)
				require.Equal(t, LossGone, lost.Reason)
				require.Equal(t, fl.clock.Now().Sub(began), lost.Overlap)
				require.Equal(t, wall.UnixMicro(), lost.Confirmed.UnixMicro())
			})
		})
	}
}

func TestAFailedExtensionConfirmsNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2)
		k := takeAtOnce(t, fl.locker(), "a", 10*time.Second)
		began := fl.clock.Now()
		fl.answered()
		pass(time.Second)
		heal := failing(fl.masters[0], fl.masters[1])
		require.ErrorIs(t, k.Extend(bg, 10*time.Second), ErrNoQuorum)
		heal()
		pass(10 * time.Second)
		var lost *LostError
		require.ErrorAs(t, k.Release(bg), &lost)
		require.Equal(t, LossNoQuorum, lost.Reason)
		require.Equal(t, fl.clock.Now().Sub(began), lost.Overlap)
		require.Len(t, lost.Votes, 3)
		require.Contains(t, lost.Error(), "LOADING")
	})
}

// The extension is still under way when the validity is over: with so long a node timeout no node has
// failed yet.
func TestAnExtensionWithoutAnAnswerIsNoQuorum(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		for _, n := range nodes {
			defer silent(n, command.Extend)()
		}
		k := take(t, l, "a", 10*time.Second, WithAutoExtend())
		pass(10 * time.Second)
		lost := lostCause(t, k)
		require.Equal(t, LossNoQuorum, lost.Reason)
		require.Len(t, lost.Votes, 3)
	}, WithNodeTimeout(9*time.Second))
}

// One node has the key, and one does not answer. So one vote is missing.
func TestALossThatAQuorumShowedHasItsVotes(t *testing.T) {
	for name, find := range map[string]func(k *Lock) error{
		"Extend":  func(k *Lock) error { return k.Extend(bg, 30*time.Second) },
		"Check":   func(k *Lock) error { return k.Check(bg) },
		"Release": func(k *Lock) error { return k.Release(bg) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, 5, func(fl *testbed) {
				fl.lateAt(3) // it has the key
				k := take(t, fl.locker(), "a", 30*time.Second)
				for _, m := range fl.masters[:3] {
					m.Del("a")
				}
				err := find(k)
				require.ErrorIs(t, err, ErrLost)
				var lost *LostError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, LossGone, lost.Reason)
				refused := 0
				for _, v := range lost.Votes {
					if v.Outcome == OutcomeRefused {
						refused++
					}
				}
				require.Len(t, lost.Votes, 5)
				require.Equal(t, 3, refused, "%v", lost)
				require.Contains(t, lost.Error(), "3 of 5 nodes no longer hold it [n1: refused; n2: refused; n3: refused; n4: ")
			})
		})
	}
}

// The check has read who holds the name.
func TestACheckThatFindsALossSaysWhoHoldsTheLockNow(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 30*time.Second)
		fl.each(func(m *fakeredis.Master) { m.FlushAll() })
		next := take(t, fl.locker(WithOwner("bob")), "a", 20*time.Second)
		inspected := fl.orders(command.Inspect)
		var lost *LostError
		require.ErrorAs(t, k.Check(bg), &lost)
		require.Equal(t, "bob", lost.Holder.Owner)
		require.LessOrEqual(t, lost.Holder.Remaining, 20*time.Second)
		require.Greater(t, lost.Holder.Remaining, 19*time.Second)
		fl.answered()
		require.Equal(t, inspected+3, fl.orders(command.Inspect), "it is not asked again")
		require.NoError(t, next.Release(bg))
	})
}

// One node does not answer. The end waits for nothing, and the log's line at most for the node timeout.
func TestTheQueryForTheNextHolderDelaysNothing(t *testing.T) {
	late.LeaveOut(t, "it counts the time")
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		k := take(t, l, "a", 30*time.Second, WithAutoExtend())
		fl.masters[1].Del("a")
		fl.masters[2].Del("a")
		fl.masters[0].Freeze()
		pass(k.lease.Terms.Interval)
		require.Zero(t, lostCause(t, k).For, "it ended at once")
		_, held := fl.masters[1].Get("a")
		require.False(t, held)
		require.Empty(t, log.ends())
		pass(maxNodeTimeout)
		require.Len(t, log.ends(), 1)
		fl.masters[0].Unfreeze()
		pass(time.Minute)
		require.Len(t, log.ends(), 1)
	})
}

// Close cuts the query short, so that no line is lost and nothing is left.
func TestCloseDoesNotWaitForTheQueryForTheNextHolder(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		k := take(t, l, "a", 30*time.Second, WithAutoExtend())
		fl.each(func(m *fakeredis.Master) { m.Del("a") })
		fl.masters[0].Freeze()
		pass(k.lease.Terms.Interval)
		require.Error(t, k.Err())
		fl.close(l)
		require.Len(t, log.ends(), 1)
	})
}

// Otherwise the queries would crowd out the extensions of other locks.
func TestFewOfManyLocksThatAreLostTogetherAreAskedAbout(t *testing.T) {
	log := &logged{}
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		const many = 3 * maxAsking
		for _, n := range nodes {
			n.script = func(_ *fakeNode, c *command.Command) bool { return c.Op == command.Inspect && c.MarkSent() } // no answer
		}
		for i := range many {
			_, err := l.TryAcquire(bg, strconv.Itoa(i), 3*time.Second, WithAutoExtend())
			require.NoError(t, err)
		}
		for _, n := range nodes {
			for i := range many {
				n.forgetKey(strconv.Itoa(i))
			}
		}
		pass(time.Second)
		for _, n := range nodes {
			require.Len(t, n.commands(command.Inspect), maxAsking)
		}
		require.Len(t, log.ends(), many-maxAsking)
		pass(time.Second)
		require.Len(t, log.ends(), many)
	}, WithLogger(log.logger()))
}

func TestErrIsNilWhileTheLockIsValid(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		share := shared(t, k)
		require.NoError(t, k.Err())
		require.NoError(t, share.Err())
		require.NoError(t, k.Release(bg))
		require.ErrorIs(t, k.Err(), ErrReleased)
		require.ErrorIs(t, share.Err(), ErrReleased)

		k = take(t, l, "a", 10*time.Second, WithStopMargin(3*time.Second))
		pass(7 * time.Second)
		require.Positive(t, k.Remaining())
		require.ErrorIs(t, k.Err(), ErrLost, "its context has ended")
		require.NoError(t, k.Release(bg))
		require.ErrorIs(t, k.Err(), ErrLost, "as the cause of the context")

		k = take(t, l, "a", 10*time.Second)
		share = shared(t, k)
		fl.clock.Suspend(time.Minute)
		require.ErrorIs(t, share.Err(), ErrLost, "no timer has run")
		require.ErrorIs(t, k.Err(), ErrLost)
		var lost *LostError
		require.ErrorAs(t, k.Err(), &lost)
		first := *lost
		pass(time.Second)
		require.ErrorAs(t, k.Err(), &lost)
		require.Equal(t, first.For+time.Second, lost.For, "as of now")
		require.Equal(t, first.Overlap+time.Second, lost.Overlap)
	})
}

// The work's context has ended, and the lock is held.
func TestErrIsNilAfterTheEndOfTheCallersContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(bg)
		err := fl.locker().Do(ctx, "a", 10*time.Second, func(ctx context.Context, k *Lock) error {
			cancel()
			<-ctx.Done()
			require.NoError(t, k.Err())
			return errors.Join(ctx.Err(), k.Err())
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrLost)
	})
}

// A function that joins Lock.Err to its error has said the reason.
func TestALossThatTheFunctionJoinsIsNotRepeated(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		err := fl.locker().Do(bg, "a", 3*time.Second, func(ctx context.Context, k *Lock) error {
			fl.each(func(m *fakeredis.Master) { m.Del("a") })
			<-ctx.Done()
			return errors.Join(errWork, k.Err())
		})
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, errWork)
		require.Equal(t, 1, strings.Count(err.Error(), ErrLost.Error()), "%v", err)
	})
}

// Names may be given to other code, and the end of one lock says nothing about another one.
func TestALostErrorMatchesThoseAboutTheSameEndOnly(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		a, b := take(t, l, "a", 3*time.Second), take(t, l, "b", 3*time.Second)
		pass(3 * time.Second)
		require.ErrorIs(t, a.Release(bg), context.Cause(a.Context()))
		require.NotErrorIs(t, a.Release(bg), b.Err())
		require.NotErrorIs(t, a.Err(), ErrMaxHold)
		require.NotErrorIs(t, a.Err(), ErrNoQuorum)
		require.NotErrorIs(t, &LostError{}, &LostError{})
		require.ErrorIs(t, &LostError{}, ErrLost)
	})
}

func TestAShareThatEndsByItselfCountsFromTheLastConfirmationOfTheLock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := takeAtOnce(t, l, "a", 20*time.Second)
		began := fl.clock.Now()
		fl.answered()
		pass(2 * time.Second)
		share := shared(t, k, WithMaxHold(3*time.Second))
		pass(4 * time.Second)
		require.NoError(t, k.Err())
		var lost *LostError
		require.ErrorAs(t, share.Release(bg), &lost)
		require.Equal(t, LossMaxHold, lost.Reason)
		require.Equal(t, time.Second, lost.For)
		require.Equal(t, fl.clock.Now().Sub(began), lost.Overlap)
		require.NoError(t, k.Release(bg))
	})
}

// Otherwise the nodes would answer that the lock that was lost has the name.
func TestTheQueryForTheNextHolderFollowsTheUndo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 5*time.Second, WithAutoExtend())
		fl.clock.Suspend(7 * time.Second)
		fl.forget()
		require.Error(t, k.Err())
		pass(time.Second)
		fl.answered()
		var lost *LostError
		require.ErrorAs(t, k.Err(), &lost)
		require.Nil(t, lost.Holder)
		fl.each(func(m *fakeredis.Master) {
			require.Equal(t, []command.Op{command.Release, command.Inspect}, asked(m), m.Name())
		})
	})
}

// A process often ends right after a loss. Then Close has to leave nothing to be written.
func TestCloseWaitsForTheLogOfALoss(t *testing.T) {
	for name, lose := range map[string]func(fl *testbed, other *Locker){
		"another client has the name": func(fl *testbed, other *Locker) {
			fl.each((*fakeredis.Master).FlushAll)
			take(fl.t, other, "a", time.Minute)
		},
		"no quorum": func(fl *testbed, _ *Locker) {
			fl.each(func(m *fakeredis.Master) { m.FailWith("*", "LOADING Redis is loading the dataset in memory") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				log := &logged{}
				slow := slog.NewTextHandler(writer(func(p []byte) (int, error) {
					time.Sleep(10 * time.Millisecond)
					return log.Write(p)
				}), nil)
				l, other := fl.locker(WithLogger(slog.New(slow))), fl.process().locker(WithOwner("bob"))
				fl.each(func(m *fakeredis.Master) { m.SetDelay(5 * time.Millisecond) })
				k := take(t, l, "a", 3*time.Second, WithAutoExtend())
				lose(fl, other)
				<-k.Context().Done()
				ctx, cancel := context.WithTimeout(bg, time.Minute)
				defer cancel()
				_ = l.Close(ctx)
				lines := strings.Join(log.lines(), "")
				require.Equal(t, 1, strings.Count(lines, "lock ended under its holder"), lines)
				if name != "no quorum" {
					require.Contains(t, lines, `now held by \"bob\"`)
				}
			})
		})
	}
}

// Close has the nodes until the log has the line.
func TestALossDuringCloseTellsWhoHoldsTheNameNow(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		log := &logged{}
		l, other := fl.locker(WithLogger(log.logger())), fl.process().locker(WithOwner("bob"))
		take(t, l, "a", 3*time.Second, WithAutoExtend())
		done := begunClose(bg, l)
		fl.each((*fakeredis.Master).FlushAll)
		take(t, other, "a", time.Minute)
		require.NoError(t, <-done)
		require.Contains(t, strings.Join(log.lines(), ""), `now held by \"bob\"`)
	})
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// After a confirmed extension the votes of the one before it no longer count, even if a node still fails.
func TestTheVotesOfALossAreThoseAfterTheLastConfirmation(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger((&logged{}).logger()), WithNodeTimeout(9*time.Second))
		k := take(t, l, "a", 10*time.Second)
		heal := failing(fl.masters[0])
		defer failing(fl.masters[1])()
		require.ErrorIs(t, k.Extend(bg, 10*time.Second), ErrNoQuorum)
		heal()
		require.NoError(t, k.Extend(bg, 10*time.Second))
		pass(8 * time.Second)
		fl.each(func(m *fakeredis.Master) { m.Freeze() })
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(bg, 10*time.Second) }() // no node has failed when the lock ends
		pass(2 * time.Second)
		require.ErrorIs(t, <-extended, ErrLost)
		lost := lostCause(t, k)
		require.Equal(t, LossNoQuorum, lost.Reason)
		require.Len(t, lost.Votes, 3)
		require.NotContains(t, lost.Error(), "LOADING")
		fl.each(func(m *fakeredis.Master) { m.Unfreeze() })
	})
}
