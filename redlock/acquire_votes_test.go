package redlock

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// mute is a node that answers nothing by itself. The test answers for it.
type mute string

func (m mute) Name() string          { return string(m) }
func (mute) Submit(*command.Command) {}

// counting counts the calls of a round to its owner.
type counting struct{ decisions, ends int }

func (*counting) onReply(_ *round, rep command.Reply) command.Reply { return rep }
func (o *counting) onDecision(*round)                               { o.decisions++ }
func (o *counting) onComplete(*round)                               { o.ends++ }

// vectors calls f with every assignment of the four outcomes to n nodes.
func vectors(n int, f func(v []Outcome)) {
	v := make([]Outcome, n)
	for code := range 1 << (2 * n) {
		for i := range v {
			v[i] = []Outcome{OutcomeGranted, OutcomeRefused, OutcomeFailed, OutcomeUnknown}[code>>(2*i)&3]
		}
		f(v)
	}
}

// orders lists all orders of n nodes.
func orders(n int) (all [][]int) {
	if n == 0 {
		return [][]int{{}}
	}
	for _, rest := range orders(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(rest), at, n-1))
		}
	}
	return all
}

// expected returns by counting alone whether a vote is decided, and with which error. It does not
// use package quorum.
func expected(votes []Outcome, nodes int) (decided bool, err error) {
	granted, failed := 0, 0
	for _, v := range votes {
		switch v {
		case OutcomeGranted:
			granted++
		case OutcomeFailed, OutcomeUnknown:
			failed++
		}
	}
	switch against := len(votes) - granted; {
	case 2*granted > nodes:
		return true, nil
	case 2*(nodes-against) > nodes:
		return false, nil
	case 2*(nodes-failed) > nodes || 2*(nodes-against+failed) <= nodes:
		return true, ErrHeld // until the nodes were queried for the holder
	}
	return true, ErrNoQuorum
}

// H9: a round is decided once, by the first vote that determines the result, for every vector of
// votes. Up to four nodes the votes arrive in every order.
func TestEveryVoteVectorIsDecidedOnceAndAsEarlyAsCanBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for n := 1; n <= 5; n++ {
			nodes := make([]Node, n)
			for i := range nodes {
				nodes[i] = mute(rune('a' + i))
			}
			l, err := New(nodes, WithClock(clock.Runtime()))
			require.NoError(t, err)
			all := orders(n)
			if n == 5 {
				all = [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}, {3, 4, 1, 0, 2}}
			}
			vectors(n, func(v []Outcome) {
				for _, order := range all {
					poll(t, l, v, order)
				}
			})
		}
	})
}

// poll answers one attempt by the votes in this order, and checks the round after each vote.
func poll(t *testing.T, l *Locker, v []Outcome, order []int) {
	t.Helper()
	r, owner := &l.newLock(bg, &request{names: []string{"a"}, ttl: time.Second}).exchange.acquire, &counting{}
	r.observer, r.start = owner, l.now()
	r.sendAll(time.Second, nil)
	var came []Outcome
	for _, node := range order {
		r.ballots[node].cmd.Answer(command.Reply{Outcome: command.Outcome(v[node]), Err: errSome})
		r.ballots[node].cmd.Answer(command.Reply{Outcome: command.Granted}) // a second answer is ignored
		came = append(came, v[node])
		decided, want := expected(came, len(v))
		if r.decided.Load() != decided || r.won() != (decided && want == nil) || want != nil && !errors.Is(r.asLossError(), want) {
			t.Fatalf("votes %v of %d: decided %v, won %v, reason %v; want %v, %v", came, len(v), r.decided.Load(), r.won(), r.asLossError(), decided, want)
		}
	}
	if owner.decisions != 1 || owner.ends != 1 || len(r.wake) != 1 {
		t.Fatalf("votes %v: %d decisions, %d ends, %d wake-ups", came, owner.decisions, owner.ends, len(r.wake))
	}
}

// frozen is a node that executes acquires and answers neither them nor queries.
func frozen(n *fakeNode, c *command.Command) bool { return c.Op == command.Inspect || silently(n, c) }

// H9, H42: TryAcquire returns the right error for every vector of votes. Unknown is a node that
// never answers, and nodes that refused hold nothing when they are queried. The call ends within
// the node timeouts, also after a tie.
func TestTryAcquireEndsWithTheRightSentinelForEveryVoteVector(t *testing.T) {
	const timeout = 250 * time.Millisecond
	replies := map[Outcome]command.Reply{
		OutcomeRefused: {Outcome: command.Refused},
		OutcomeFailed:  {Outcome: command.Failed, Err: errSome},
	}
	for n := 1; n <= 5; n++ {
		onFakes(t, n, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clock.Skewed) {
			vectors(n, func(v []Outcome) {
				count := map[Outcome]int{}
				for i, o := range v {
					count[o]++
					switch o {
					case OutcomeGranted:
						nodes[i].script = nil
					case OutcomeUnknown:
						nodes[i].script = frozen
					default:
						nodes[i].script = answering(replies[o])
					}
				}
				var k *Lock
				var err error
				took := elapsed(func() { k, err = l.TryAcquire(bg, "a", time.Second) })
				faults := count[OutcomeFailed] + count[OutcomeUnknown]
				switch {
				case 2*count[OutcomeGranted] > n:
					require.NoError(t, err, "%v", v)
					require.Zero(t, took, "%v", v)
					require.NoError(t, k.Release(bg))
				case 2*(n-faults) <= n:
					require.ErrorIs(t, err, ErrNoQuorum, "%v", v)
					require.NotErrorIs(t, err, ErrHeld, "%v", v)
					want := timeout // to learn whether the silent nodes answer
					if 2*(n-count[OutcomeFailed]) <= n {
						want = 0
					}
					require.Equal(t, want, took, "%v", v)
				default:
					require.ErrorIs(t, err, ErrHeld, "%v", v)
					require.True(t, isSplit(err), "%v", v)
					require.Greater(t, took, timeout/2, "%v: it attempts again", v)
					require.Less(t, took, timeout+minTie, "%v", v)
				}
				synctest.Wait()
				for _, node := range nodes { // no node holds a key after any vote (H2, H4)
					require.Empty(t, node.held, "%v", v)
					node.mu.Lock()
					node.seen = nil
					node.mu.Unlock()
				}
			})
		})
	}
}

// docs/dev/rules.md rule 24: the vote of a node that had timed out stays Unknown.
func TestALateGrantIsNotShownAsAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New([]Node{mute("a"), mute("b"), mute("c")}, WithClock(clock.Runtime()))
		require.NoError(t, err)
		r := &l.newLock(bg, &request{names: []string{"a"}, ttl: time.Second}).exchange.acquire
		r.start = l.now()
		r.sendAll(time.Second, nil)
		r.ballots[0].cmd.Answer(command.Reply{Outcome: command.Granted})
		r.Fire(nil)
		r.ballots[1].cmd.Answer(command.Reply{Outcome: command.Granted})
		r.ballots[2].cmd.Answer(command.Reply{Outcome: command.Refused})
		require.False(t, r.won())
		e := r.asLossError()
		require.ErrorIs(t, e, ErrHeld, "of the two in time one granted: it is no fault")
		require.Equal(t, []Outcome{OutcomeGranted, OutcomeUnknown, OutcomeRefused}, votes(t, e))
		require.Equal(t, `redlock: held by another client: acquire "a": 1 of 3 votes, 2 needed `+
			`[a: granted; b: unknown: no answer within the node timeout; c: refused]`, e.Error())
	})
}
