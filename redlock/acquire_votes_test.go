package redlock

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// mute is a node that answers nothing by itself. The test answers the last command.
type mute struct {
	plain
	name    string
	command *command.Command
}

func (m *mute) Name() string { return m.name }

func (m *mute) Submit(c, _ *command.Command) error {
	m.command = c
	return nil
}

// muteGroup makes a group of mute nodes with the clock and the timers of a Locker.
func muteGroup(l *Locker, n int) (*vote.Group, []*mute) {
	g := &vote.Group{Clock: l.set.clock, Timers: l.timers}
	nodes := make([]*mute, n)
	for i := range nodes {
		nodes[i] = &mute{name: string(rune('a' + i))}
		g.Nodes = append(g.Nodes, nodes[i])
	}
	return vote.NewGroup(g), nodes
}

// counting counts the events of a round.
type counting struct{ decisions, ends int }

var countingEvents = vote.Events{
	OnDecision: func(r *vote.Round) { r.Owner.(*counting).decisions++ },
	OnComplete: func(r *vote.Round) { r.Owner.(*counting).ends++ },
}

// muteRound sends a round to mute nodes that acquires the name "a".
func muteRound(g *vote.Group, owner *counting) *vote.Round {
	r, t := g.New(&countingEvents, owner, []string{"a"}), &command.LockArgs{}
	t.Set(r.Names, command.NewToken(""))
	command.NewAcquire(&r.Request, t, time.Second, time.Minute)
	r.Start = g.Clock.Now()
	r.Arm(time.Second)
	r.Send(nil).Settle()
	return r
}

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
			l, err := newOver([]command.Voter{&mute{name: "a"}}, WithClock(clock.Runtime()))
			require.NoError(t, err)
			g, nodes := muteGroup(l, n)
			all := orders(n)
			if n == 5 {
				all = [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}, {3, 4, 1, 0, 2}}
			}
			vectors(n, func(v []Outcome) {
				for _, order := range all {
					poll(t, g, nodes, v, order)
				}
			})
		}
	})
}

// poll answers one attempt by the votes in this order, and checks the round after each vote.
func poll(t *testing.T, g *vote.Group, nodes []*mute, v []Outcome, order []int) {
	t.Helper()
	owner := &counting{}
	r := muteRound(g, owner)
	var came []Outcome
	for _, node := range order {
		nodes[node].command.Answer(command.Reply{Outcome: command.Outcome(v[node]), Err: errSome})
		nodes[node].command.Answer(command.Reply{Outcome: command.Granted}) // a second answer is ignored
		came = append(came, v[node])
		decided, want := expected(came, len(v))
		if r.Decided() != decided || r.Won() != (decided && want == nil) || want != nil && !errors.Is(lossError(r), want) {
			t.Fatalf("votes %v of %d: decided %v, won %v, reason %v; want %v, %v", came, len(v), r.Decided(), r.Won(), lossError(r), decided, want)
		}
	}
	if owner.decisions != 1 || owner.ends != 1 || len(r.Woken()) != 1 {
		t.Fatalf("votes %v: %d decisions, %d ends, %d wake-ups", came, owner.decisions, owner.ends, len(r.Woken()))
	}
}

// minTie is the shortest time that a tied vote waits for more answers.
var minTie = vote.TieTimeout(0)

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
		onFakes(t, n, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
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
		l, err := newOver([]command.Voter{&mute{name: "a"}}, WithClock(clock.Runtime()))
		require.NoError(t, err)
		g, nodes := muteGroup(l, 3)
		r := muteRound(g, &counting{})
		nodes[0].command.Answer(command.Reply{Outcome: command.Granted})
		pass(time.Second) // the vote ends
		nodes[1].command.Answer(command.Reply{Outcome: command.Granted})
		nodes[2].command.Answer(command.Reply{Outcome: command.Refused})
		require.False(t, r.Won())
		e := lossError(r)
		require.ErrorIs(t, e, ErrHeld, "of the two in time one granted: it is no fault")
		require.Equal(t, []Outcome{OutcomeGranted, OutcomeUnknown, OutcomeRefused}, votes(t, e))
		require.Equal(t, `redlock: held by another client: acquire "a": 1 of 3 votes, 2 needed `+
			`[a: granted; b: unknown: no answer within the node timeout; c: refused]`, e.Error())
	})
}
