package quorum_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/quorum"
)

// vote is the answer of one node.
type vote byte

const (
	grant vote = iota
	refuse
	fail
	kinds = 3
)

func cast(t *quorum.Tally, v vote) quorum.Decision {
	switch v {
	case grant:
		t.Grant()
	case refuse:
		t.Refuse()
	default:
		t.Fail()
	}
	return t.Decision()
}

// foreseen is the decision by its meaning, not by its arithmetic: it assumes that all outstanding
// votes are grants, then that none is, and compares the results.
func foreseen(n int, seen []vote) quorum.Decision {
	granted := count(seen, grant)
	most := 2*(granted+n-len(seen)) > n // a strict majority of the configured nodes
	least := 2*granted > n
	switch {
	case least:
		return quorum.Won
	case !most:
		return quorum.Lost
	}
	return quorum.Open
}

func count(votes []vote, v vote) (n int) {
	for _, w := range votes {
		if w == v {
			n++
		}
	}
	return n
}

// sequences calls f with every sequence of n votes, 3^n of them. It is reused.
func sequences(n int, f func(votes []vote)) {
	votes := make([]vote, n)
	total := 1
	for range n {
		total *= kinds
	}
	for code := range total {
		for i := range votes {
			votes[i] = vote(code % kinds)
			code /= kinds
		}
		f(votes)
	}
}

// requireVote casts votes one by one, and checks everything after each.
func requireVote(t *testing.T, n int, votes []vote) {
	t.Helper()
	tally := quorum.NewTally(n)
	was := quorum.Open
	for i, v := range votes {
		got, seen := cast(&tally, v), votes[:min(i+1, n)]
		if want := foreseen(n, seen); got != want || got != tally.Decision() {
			t.Fatalf("n=%d %v: %v, want %v", n, seen, got, want)
		}
		if was != quorum.Open && got != was {
			t.Fatalf("n=%d %v: %v became %v", n, seen, was, got)
		}
		was = got
		requireCounts(t, tally, n, seen)
	}
	if len(votes) >= n && was == quorum.Open {
		t.Fatalf("n=%d %v: never decided", n, votes)
	}
}

func requireCounts(t *testing.T, tally quorum.Tally, n int, seen []vote) {
	t.Helper()
	g, r, f := count(seen, grant), count(seen, refuse), count(seen, fail)
	ok := tally.Granted() == g && tally.Refused() == r && tally.Failed() == f &&
		tally.Outstanding() == n-len(seen) &&
		// The nodes that did not refuse are not a majority.
		quorum.Blocks(n, r) == (2*(n-r) <= n)
	if !ok {
		t.Fatalf("n=%d %v: %+v", n, seen, tally)
	}
}

func TestEverySequenceOfVotesIsDecidedOnceAndAsEarlyAsPossible(t *testing.T) {
	for n := 1; n <= 9; n++ {
		sequences(n, func(votes []vote) { requireVote(t, n, votes) })
	}
}

func TestLargeGroupsAreDecidedLikeSmallOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		n := 1 + r.IntN(99)
		votes := make([]vote, n)
		bias := r.IntN(10)
		for i := range votes {
			if r.IntN(10) >= bias {
				votes[i] = vote(r.IntN(kinds))
			}
		}
		requireVote(t, n, votes)
	}
}

func TestAVoteBeyondTheLastNodesIsNotCounted(t *testing.T) {
	sequences(5, func(votes []vote) { requireVote(t, 3, votes) })
}

func TestAnyTwoMajoritiesMeetAndNoSmallerNumberDoes(t *testing.T) {
	for n := 1; n <= quorum.MaxNodes; n++ {
		q := quorum.Majority(n)
		require.Equal(t, q, func() int { t := quorum.NewTally(n); return t.Need() }())
		require.Greater(t, 2*q, n)
		require.LessOrEqual(t, 2*(q-1), n)
	}
}

func TestAnEvenGroupIsLostOneRefusalBelowAMajority(t *testing.T) {
	tally := quorum.NewTally(4)
	require.Equal(t, quorum.Open, cast(&tally, refuse))
	require.Equal(t, quorum.Lost, cast(&tally, refuse))
}

func TestTheZeroTallyDecidesNothing(t *testing.T) {
	var tally quorum.Tally
	require.Equal(t, quorum.Open, cast(&tally, grant))
	require.Equal(t, quorum.Open, cast(&tally, fail))
}

func TestACopyOfATallyIsATallyOfItsOwn(t *testing.T) {
	a := quorum.NewTally(3)
	a.Grant()
	b := a
	require.Equal(t, quorum.Won, cast(&b, grant))
	require.Equal(t, quorum.Open, a.Decision())
}

func TestATallyAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		tally := quorum.NewTally(5)
		tally.Refuse()
		tally.Fail()
		tally.Grant()
	}))
}

func FuzzTally(f *testing.F) {
	f.Add(1, []byte{0})
	f.Add(2, []byte{0, 1})
	f.Add(3, []byte{0, 1, 2})
	f.Add(4, []byte{1, 1, 0, 0})
	f.Add(5, []byte{2, 2, 0, 0, 0})
	f.Add(9, []byte{0, 0, 0, 0, 1, 1, 1, 1, 2, 2})
	f.Fuzz(func(t *testing.T, n int, raw []byte) {
		if n < 1 || n > quorum.MaxNodes {
			t.Skip("not a fleet")
		}
		votes := make([]vote, len(raw))
		for i, b := range raw {
			votes[i] = vote(b % kinds)
		}
		requireVote(t, n, votes)
	})
}
