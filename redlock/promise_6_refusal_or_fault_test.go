package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// Promise 6: a refusal is distinguished from a fault. ErrHeld says that another client has the lock,
// or that contenders split the votes: waiting helps. ErrNoQuorum and ErrQuarantined say that too few
// nodes voted: somebody should look at the nodes.

// All votes.

// In a vector of votes a letter is a node:
//
//	g  it grants
//	h  the holder's token is there: it refuses
//	o  the token of another attempt is there: it refuses
//	f  it answers by an error
//	s  it is silent
//	q  it is in quarantine (under the restart guard)
//
// The order of the nodes does not matter, so each row stands for all orders of its letters.

var votes = map[string]error{
	"ggg": nil, "ggh": nil, "ggo": nil, "ggf": nil, "ggs": nil,

	"hhh": redlock.ErrHeld, "hhg": redlock.ErrHeld, "hho": redlock.ErrHeld, "hhf": redlock.ErrHeld, "hhs": redlock.ErrHeld,
	"gho": redlock.ErrHeld, "ghf": redlock.ErrHeld, "ghs": redlock.ErrHeld, "hof": redlock.ErrHeld, "hos": redlock.ErrHeld,

	"gff": redlock.ErrNoQuorum, "gfs": redlock.ErrNoQuorum, "gss": redlock.ErrNoQuorum,
	"hff": redlock.ErrNoQuorum, "hfs": redlock.ErrNoQuorum, "hss": redlock.ErrNoQuorum,
	"fff": redlock.ErrNoQuorum, "ffs": redlock.ErrNoQuorum, "fss": redlock.ErrNoQuorum, "sss": redlock.ErrNoQuorum,
}

var votesUnderTheGuard = map[string]error{
	"ggg": nil, "ggq": nil,

	"hhq": redlock.ErrHeld, "ghq": redlock.ErrHeld,

	"gqq": redlock.ErrQuarantined, "hqq": redlock.ErrQuarantined, "fqq": redlock.ErrQuarantined, "qqq": redlock.ErrQuarantined,
	"gfq": redlock.ErrQuarantined, "hfq": redlock.ErrQuarantined, "gsq": redlock.ErrQuarantined, "fsq": redlock.ErrQuarantined,

	"gff": redlock.ErrNoQuorum,
}

// votedBy makes the nodes vote as a vector says.
func (s *system) votedBy(vector string) {
	for i := range len(vector) {
		switch n := i + 1; vector[i] {
		case 'h':
			s.set("x", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour, n)
		case 'o':
			s.set("x", "BCDEFGHIJKLMNOPQRSTUVWXYZA", time.Hour, n)
		case 'f':
			s.refuse("LOADING Redis is loading the dataset in memory", n)
		case 's':
			s.freeze(n)
		case 'q':
			s.masters[i].FlushAll()
		}
	}
}

// orders lists the different orders of a vector's letters.
func orders(vector string) (all []string) {
	if len(vector) < 2 {
		return []string{vector}
	}
	for i := range len(vector) {
		for _, rest := range orders(vector[:i] + vector[i+1:]) {
			all = append(all, vector[i:i+1]+rest)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestEveryVectorOfVotesHasItsError(t *testing.T) {
	requireErrors(t, votes, time.Minute, func(s *system) *process { return s.process() })
}

func TestEveryVectorOfVotesHasItsErrorUnderTheGuard(t *testing.T) {
	requireErrors(t, votesUnderTheGuard, time.Second, func(s *system) *process { return s.guarded() })
}

// requireErrors checks the error of an attempt by a process, for each row in all its orders.
func requireErrors(t *testing.T, rows map[string]error, ttl time.Duration, open func(s *system) *process) {
	t.Helper()
	for row, want := range rows {
		for _, vector := range orders(row) {
			onMasters(t, 3, func(t *testing.T, s *system) {
				p := open(s)
				s.votedBy(vector)
				_, err := p.TryAcquire(bg, "x", ttl)
				requireOnly(t, err, want, vector)
			})
		}
	}
}

// An attempt may be decided before it is sent to each node. Then the question for the holder is the first that such a
// node gets, and it answers as it would have voted.
func TestAQuarantinedNodeThatAnAttemptDidNotReachIsAFault(t *testing.T) {
	for range 50 {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.guarded()
			s.votedBy("hqq")
			_, err := p.TryAcquire(bg, "x", time.Second)
			requireOnly(t, err, redlock.ErrQuarantined, "hqq")
		})
	}
}

func TestANodeThatAnswersLastMakesAFaultOfWhatLooksLikeASplitVote(t *testing.T) {
	for _, vector := range []string{"hff", "fhf"} { // one refuses and one fails: no quorum can grant it
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.votedBy(vector)
			s.slow(10*time.Millisecond, 3)
			_, err := p.TryAcquire(bg, "x", time.Minute)
			requireOnly(t, err, redlock.ErrNoQuorum, vector)
		})
	}
}

// requireOnly checks that the reason of an error is the wanted one, and matches no other.
func requireOnly(t *testing.T, err, want error, what string) {
	t.Helper()
	require.Equal(t, want == nil, err == nil, "%s: %v", what, err)
	for _, reason := range []error{redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrQuarantined, redlock.ErrTooLate, redlock.ErrLost} {
		require.Equal(t, errors.Is(want, reason), errors.Is(err, reason), "%s: %v", what, err)
	}
	for _, reason := range []error{context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, net.ErrClosed} {
		require.NotErrorIs(t, err, reason, what)
	}
	if err != nil {
		require.NotContains(t, err.Error(), "\n", what)
	}
}

// Held.

func TestARefusalNamesTheHolderAndHowLongItsKeysLive(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(redlock.WithOwner("worker-7")), s.process()
		lock := a.take("x", time.Minute)
		pass(20 * time.Second)
		_, err := b.TryAcquire(bg, "x", time.Minute)
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, redlock.HeldError{Owner: "worker-7", ID: lock.ID(), Remaining: 40 * time.Second}, *held)
		require.ErrorContains(t, err, `held by "worker-7" for 40s more`)
		require.NotContains(t, fmt.Sprintf("%+v", err), strings.TrimPrefix(lock.Token(), "worker-7:"), "the token is a secret")
	})
}

func TestARefusalOfSeveralNamesNamesTheHolderWhoseKeyLivesLongest(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.process(redlock.WithOwner("short")).take("a", time.Minute)
		s.process(redlock.WithOwner("long")).take("b", time.Hour)
		_, err := p.TryAcquireAll(bg, []string{"a", "b"}, time.Minute)
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "long", held.Owner)
		require.Equal(t, time.Hour, held.Remaining)
	})
}

func TestAPlainHolderIsKnownAfterTwoRoundTrips(t *testing.T) {
	for _, vector := range []string{"hhh", "ghh", "fhh", "shh"} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.slow(10 * time.Millisecond)
			s.votedBy(vector)
			var err error
			require.Equal(t, 20*time.Millisecond, elapsed(func() { _, err = p.TryAcquire(bg, "x", time.Minute) }), vector)
			var quorum *redlock.QuorumError
			require.ErrorAs(t, err, &quorum)
			require.False(t, quorum.Split, vector)
		})
	}
}

func TestSplitVotesAreTriedAgainUntilTheNodeTimeout(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.set("x", "one", time.Hour, 1)
		s.set("x", "another", time.Hour, 2)
		go func() { // contenders come and go
			for i := range 100 {
				time.Sleep(20 * time.Millisecond)
				s.set("x", fmt.Sprint("another", i), time.Hour, 2)
			}
		}()
		var err error
		took := elapsed(func() { _, err = p.TryAcquire(bg, "x", time.Minute) })
		require.LessOrEqual(t, took, nodeTimeout)
		require.Greater(t, took, nodeTimeout/2)
		var quorum *redlock.QuorumError
		require.ErrorAs(t, err, &quorum)
		require.True(t, quorum.Split)
		require.ErrorIs(t, err, redlock.ErrHeld)
		pass(2 * time.Second) // until the last contender has come
	})
}

func TestKeysThatStayAreNoSplitVote(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.votedBy("hog") // two processes have crashed, and left a key each
		_, err := p.TryAcquire(bg, "x", time.Minute)
		var quorum *redlock.QuorumError
		require.ErrorAs(t, err, &quorum)
		require.False(t, quorum.Split)
	})
}

func TestAHolderByABareQuorumIsNoSplitVoteThoughANodeIsDown(t *testing.T) {
	for _, vector := range []string{"fhh", "hfh", "hhf"} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.votedBy(vector)
			s.slow(10*time.Millisecond, 1)
			s.slow(20*time.Millisecond, 2)
			var err error
			require.Less(t, elapsed(func() { _, err = p.TryAcquire(bg, "x", time.Minute) }), 100*time.Millisecond)
			var quorum *redlock.QuorumError
			require.ErrorAs(t, err, &quorum)
			require.False(t, quorum.Split)
		})
	}
}

// A job that all machines leave to another one, which does not run it, is missed.
func TestHeldByNamesAClientThatHoldsAQuorumAndNoOther(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		anna, ben := s.process(redlock.WithOwner("anna")), s.process(redlock.WithOwner("ben"))
		require.Nil(t, redlock.HeldBy(nil))
		heldBy := func() *redlock.HeldError {
			_, err := ben.TryAcquire(bg, "x", time.Minute)
			require.Error(t, err)
			return redlock.HeldBy(err)
		}
		lock := anna.take("x", time.Minute)
		require.Equal(t, lock.ID(), heldBy().ID)
		require.Equal(t, "anna", heldBy().Owner)
		s.kill(3)
		require.Equal(t, lock.ID(), heldBy().ID, "a bare quorum")
		_, err := ben.Acquire(bg, "x", time.Minute, redlock.WithWait(time.Second))
		require.Equal(t, lock.ID(), redlock.HeldBy(err).ID, "the wait ended")
		s.kill(2)
		require.Nil(t, heldBy(), "no quorum")
	})
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.votedBy("hog") // two clients have crashed, and left a key each
		_, err := p.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Nil(t, redlock.HeldBy(err))
		s.set("x", "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ", 0)
		_, err = p.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Nil(t, redlock.HeldBy(err), "the keys never expire")
	})
	onMasters(t, 3, func(t *testing.T, s *system) {
		ben := s.process()
		lock := ben.take("x", time.Minute)
		_, err := ben.Acquire(bg, "x", time.Minute, redlock.WithWait(time.Second))
		require.Equal(t, lock.ID(), redlock.HeldBy(err).ID)
		waits := ben.wants(bg, []string{"x"}, time.Minute)
		_, err = ben.Acquire(bg, "x", time.Minute, redlock.WithWait(time.Second))
		require.Equal(t, lock.ID(), redlock.HeldBy(err).ID)
		require.NoError(t, lock.Release(bg))
		require.NoError(t, s.get(waits).Release(bg))
	})
	onMasters(t, 3, func(t *testing.T, s *system) {
		anna, ben := s.process(redlock.WithOwner("anna")), s.process()
		anna.take("x", time.Minute)
		_, heldX := ben.TryAcquire(bg, "x", time.Minute)
		s.freeze(1, 2)
		for _, wait := range []time.Duration{0, time.Minute} {
			ctx, cancel := context.WithCancelCause(bg)
			time.AfterFunc(10*time.Millisecond, func() { cancel(heldX) }) // as errgroup does
			_, err := ben.Acquire(ctx, "y", time.Minute, redlock.WithWait(wait))
			require.ErrorIs(t, err, redlock.ErrHeld, "the cause")
			require.Nil(t, redlock.HeldBy(err), "nobody holds y")
		}
	})
}

func TestAKeyThatIsNoLockEndsTheWaitAtOnce(t *testing.T) {
	onMasters(t, 4, func(t *testing.T, s *system) {
		p := s.process()
		s.each([]int{1, 2}, func(m *fakeredis.Master) { m.PushList("x") }) // the others are no quorum
		var err error
		require.Zero(t, elapsed(func() { _, err = p.Acquire(bg, "x", time.Minute) }))
		requireOnly(t, err, redlock.ErrForeignKey, "a list")
	})
}

func TestAQuorumWithTooLittleValidityIsNeitherARefusalNorAFault(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		requireOnly(t, s.process().suspendedAttempt(time.Hour), redlock.ErrTooLate, "suspended")
	})
}

// Faults.

func TestANodeThatIsSilentIsUnknownAndNotFailed(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.votedBy("ssg")
		_, err := p.TryAcquire(bg, "x", time.Minute)
		var quorum *redlock.QuorumError
		require.ErrorAs(t, err, &quorum)
		require.Equal(t, redlock.OutcomeUnknown, quorum.Votes[0].Outcome, "it may have the key")
		require.Equal(t, redlock.OutcomeUnknown, quorum.Votes[1].Outcome)
		require.Equal(t, redlock.OutcomeGranted, quorum.Votes[2].Outcome)
		require.ErrorIs(t, err, redlock.ErrNodeTimeout)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller had no deadline")
	})
}

func TestTheErrorOfAServerIsNoRefusal(t *testing.T) {
	for text, want := range map[string]redlock.Outcome{
		"LOADING Redis is loading the dataset in memory":                                  redlock.OutcomeFailed,
		"READONLY You can't write against a read only replica.":                           redlock.OutcomeFailed,
		"OOM command not allowed when used memory > 'maxmemory'.":                         redlock.OutcomeFailed,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to": redlock.OutcomeFailed,
		"BUSY Redis is busy running a script.":                                            redlock.OutcomeFailed,
		"NOPERM User default has no permissions to run the 'set' command":                 redlock.OutcomeFailed,
		"NOREPLICAS Not enough good replicas to write.":                                   redlock.OutcomeFailed,
		"CLUSTERDOWN Hash slot not served":                                                redlock.OutcomeFailed,
		"ERR something went wrong in the middle":                                          redlock.OutcomeUnknown,
		"NEWCODE of a server to come":                                                     redlock.OutcomeUnknown,
		"+QUEUED":                                                                         redlock.OutcomeUnknown,
		":7":                                                                              redlock.OutcomeUnknown,
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.refuse(text, 1, 2)
			_, err := p.TryAcquire(bg, "x", time.Minute)
			requireOnly(t, err, redlock.ErrNoQuorum, text)
			var quorum *redlock.QuorumError
			require.ErrorAs(t, err, &quorum)
			require.Equal(t, want, quorum.Votes[0].Outcome, text)
			var server *pool.ServerError
			require.Equal(t, text[0] >= 'A', errors.As(err, &server), text)
		})
	}
}

func TestAQuorumErrorNamesEveryNodeAndItsAnswer(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.votedBy("fsg")
		_, err := p.TryAcquire(bg, "invoice/42", time.Minute)
		for _, part := range []string{
			`acquire "invoice/42"`, "1 of 3 votes, 2 needed", "n1: failed: LOADING Redis is loading", "n2: unknown: ", "n3: granted",
		} {
			require.ErrorContains(t, err, part)
		}
	})
}

func TestANodeThatMustNotVoteSaysWhy(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.each([]int{1, 2}, func(m *fakeredis.Master) { m.SetInfo("role", "slave") })
		_, err := s.process().TryAcquire(bg, "x", time.Minute)
		requireOnly(t, err, redlock.ErrNoQuorum, "replicas")
		require.ErrorIs(t, err, redlock.ErrUnfit)
		require.ErrorContains(t, err, "n1")
	})
}

func TestNodesWhoseChecksFailDoNotVoteButExtend(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		s.each(nil, func(m *fakeredis.Master) { m.FailWith("INFO", "BUSY Redis is busy running a script.") })
		pass(30 * time.Second)
		_, err := p.TryAcquire(bg, "y", time.Minute)
		requireOnly(t, err, redlock.ErrNoQuorum, "their checks have failed")
		require.ErrorIs(t, err, redlock.ErrUnfit)
		require.NoError(t, lock.Extend(bg, time.Minute))
	})
}

func TestAQuarantineSaysHowLongNoQuorumCanVote(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.guarded()
		s.restart(1)
		pass(500 * time.Millisecond)
		require.NoError(t, p.take("x", time.Second).Release(bg)) // its quarantine begins
		pass(4 * time.Second)
		s.restart(2)
		pass(500 * time.Millisecond)
		_, err := p.TryAcquire(bg, "x", time.Second)
		requireOnly(t, err, redlock.ErrQuarantined, "two nodes have forgotten")
		var quorum *redlock.QuorumError
		require.ErrorAs(t, err, &quorum)
		require.InDelta(t, maxTTL-4500*time.Millisecond, quorum.QuarantinedFor(), float64(time.Second), "until n1 votes")
	})
}

// Waiting.

func TestAcquireWaitsForHoldersAndForNodes(t *testing.T) {
	for _, vector := range []string{"hhh", "fff", "sss", "ghf", "gff"} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.votedBy(vector)
			waiting := p.wants(bg, []string{"x"}, time.Minute)
			pass(20 * time.Second)
			require.Empty(t, waiting, vector)
			s.heal()
			s.del("x")
			pass(2 * time.Second)
			require.Len(t, waiting, 1, vector)
		})
	}
}

func TestWithFailFastAnAcquireWaitsForHoldersOnly(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Minute)
		waiting := b.wants(bg, []string{"x"}, time.Minute, redlock.WithFailFast())
		pass(10 * time.Second)
		require.NoError(t, lock.Release(bg))
		require.NoError(t, s.get(waiting).Release(bg))
		s.kill(1, 2)
		_, err := b.Acquire(bg, "x", time.Minute, redlock.WithFailFast())
		requireOnly(t, err, redlock.ErrNoQuorum, "two are down")
	})
}

func TestAWaitThatItsContextEndsNamesTheCauseAndTheReason(t *testing.T) {
	stop := errors.New("the caller's own reason")
	for vector, reason := range map[string]error{"hhh": redlock.ErrHeld, "ffg": redlock.ErrNoQuorum, "ssg": redlock.ErrNoQuorum} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.votedBy(vector)
			ctx, cancel := context.WithCancelCause(bg)
			time.AfterFunc(5*time.Second, func() { cancel(stop) })
			var err error
			require.Equal(t, 5*time.Second, elapsed(func() { _, err = p.Acquire(ctx, "x", time.Minute) }))
			require.ErrorIs(t, err, stop, vector)
			require.ErrorIs(t, err, reason, vector)
			require.Equal(t, errors.Is(reason, redlock.ErrHeld), errors.Is(err, redlock.ErrHeld), vector)
		})
	}
}

func TestATryThatItsContextEndsIsNoSplitVote(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.votedBy("hhh")
		s.slow(50 * time.Millisecond)
		ctx, cancel := context.WithTimeout(bg, 75*time.Millisecond) // while it asks for the holder
		defer cancel()
		_, err := p.TryAcquire(ctx, "x", time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NotContains(t, err.Error(), "split vote")
	})
}

func TestABoundedWaitEndsWithTheReasonAndNoErrorOfAContext(t *testing.T) {
	for vector, reason := range map[string]error{"hhh": redlock.ErrHeld, "ffg": redlock.ErrNoQuorum} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.votedBy(vector)
			var err error
			took := elapsed(func() { _, err = p.Acquire(bg, "x", time.Minute, redlock.WithWait(2*time.Second)) })
			require.Equal(t, 2*time.Second, took)
			requireOnly(t, err, reason, vector)
		})
	}
}

func TestAnAcquireNeverSucceedsAfterItsContext(t *testing.T) {
	for n := range 3 {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.slow(time.Millisecond)
			ctx, cancel := context.WithCancel(bg)
			s.before(n+1, 1, cancel)
			_, err := p.Acquire(ctx, "x", time.Minute)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, s.left())
		})
	}
}

// Extensions, checks and releases.

func TestAReleaseSucceedsOrTheLockWasLostOrItsOutcomeIsUnknown(t *testing.T) {
	for vector, want := range map[string]error{
		"ggg": nil, "ggo": nil, "ggf": nil, "ggs": nil,
		"ooo": redlock.ErrLost, "goo": redlock.ErrLost, "oof": redlock.ErrLost, "oos": redlock.ErrLost,
		"gof": redlock.ErrNoQuorum, "gff": redlock.ErrNoQuorum, "gss": redlock.ErrNoQuorum, "off": redlock.ErrNoQuorum, "sss": redlock.ErrNoQuorum,
	} {
		for _, order := range orders(vector) {
			onMasters(t, 3, func(t *testing.T, s *system) {
				lock := s.process().take("x", time.Minute)
				s.votedBy(order)
				requireOnly(t, lock.Release(bg), want, order)
				require.ErrorIs(t, context.Cause(lock.Context()), redlock.ErrReleased, order)
			})
		}
	}
}

func TestAnExtensionSucceedsOrTheLockIsLostOrItStaysAsItWas(t *testing.T) {
	for vector, want := range map[string]error{
		"ggg": nil, "ggo": nil, "ggf": nil, "ggs": nil,
		"ooo": redlock.ErrLost, "goo": redlock.ErrLost, "oos": redlock.ErrLost,
		"gof": redlock.ErrNoQuorum, "gff": redlock.ErrNoQuorum, "gss": redlock.ErrNoQuorum, "off": redlock.ErrNoQuorum, "sss": redlock.ErrNoQuorum,
	} {
		for _, order := range orders(vector) {
			onMasters(t, 3, func(t *testing.T, s *system) {
				lock := s.process().take("x", time.Minute)
				s.votedBy(order)
				requireOnly(t, lock.Extend(bg, time.Minute), want, order)
				require.Equal(t, errors.Is(want, redlock.ErrLost), lock.Context().Err() != nil, order)
			})
		}
	}
}

func TestACallAfterTheEndSaysWhyTheLockEnded(t *testing.T) {
	for want, end := range map[error]func(lock *redlock.Lock){
		redlock.ErrReleased: func(lock *redlock.Lock) { _ = lock.Release(bg) },
		redlock.ErrDetached: func(lock *redlock.Lock) { _, _ = lock.Detach() },
		redlock.ErrMaxHold:  func(*redlock.Lock) { pass(5 * time.Second) },
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			lock := s.process().take("x", 10*time.Second, redlock.WithMaxHold(5*time.Second))
			end(lock)
			require.ErrorIs(t, lock.Extend(bg, time.Minute), want)
			require.ErrorIs(t, lock.Check(bg), want)
			require.ErrorIs(t, context.Cause(lock.Context()), want)
		})
	}
}

func TestALostLockSaysForHowLong(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Second)
		pass(validity(time.Second) + 300*time.Millisecond)
		var lost *redlock.LostError
		require.ErrorAs(t, lock.Release(bg), &lost)
		require.Equal(t, []string{"x"}, lost.Names)
		require.Equal(t, 300*time.Millisecond, lost.For)
	})
}

func TestInspectAndHealthyTellAFaultFromAFreeName(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		status, err := p.Inspect(bg, "x")
		require.NoError(t, err)
		require.False(t, status.Held)
		p.take("x", time.Minute)
		status, err = p.Inspect(bg, "x")
		require.NoError(t, err)
		require.True(t, status.Held)
		require.NoError(t, p.Healthy(bg))
		s.freeze(1, 2)
		_, err = p.Inspect(bg, "x")
		requireOnly(t, err, redlock.ErrNoQuorum, "Inspect")
		requireOnly(t, p.Healthy(bg), redlock.ErrNoQuorum, "Healthy")
	})
}

// Mistakes of the caller are neither.

func TestArgumentsThatAreOutOfBoundsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithMaxTTL(time.Hour))
		s.forget()
		for name, ttl := range map[string]time.Duration{
			"": time.Minute, "redlock:x": time.Minute, strings.Repeat("x", 513): time.Minute,
			"too short": 9 * time.Millisecond, "too long": time.Hour + time.Millisecond, "no unit": 30, "no milliseconds": time.Second + 1,
		} {
			_, err := p.Acquire(bg, name, ttl)
			require.ErrorIs(t, err, redlock.ErrInvalid, name)
			requireOnly(t, err, redlock.ErrInvalid, name)
		}
		_, err := p.AcquireAll(bg, []string{"x", "x"}, time.Minute)
		require.ErrorIs(t, err, redlock.ErrInvalid, "a name twice")
		_, err = p.AcquireAll(bg, nil, time.Minute)
		require.ErrorIs(t, err, redlock.ErrInvalid, "no name")
		require.Empty(t, s.sent(0))
	})
}

func TestUnderAContextThatIsDoneNothingIsSent(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		s.forget()
		ctx, cancel := context.WithCancel(bg)
		cancel()
		_, err := p.Acquire(ctx, "y", time.Minute)
		require.ErrorIs(t, err, context.Canceled)
		_, err = p.TryAcquire(ctx, "y", time.Minute)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, lock.Extend(ctx, time.Minute), context.Canceled)
		require.Empty(t, s.sent(0))
		require.NoError(t, lock.Release(ctx), "a release is sent nevertheless")
	})
}
