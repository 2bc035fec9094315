package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// votesOf are votes as letters: g granted, r refused, f failed, - not awaited.
func votesOf(text string) (votes []Vote) {
	for _, c := range text {
		votes = append(votes, map[rune]Vote{'-': NotAwaited, 'g': Granted, 'r': Refused, 'f': Failed}[c])
	}
	return votes
}

// answersOf are the answers to a query for one name: x and y are tokens, a dot is a free key, f a failure, and ? is
// pending. A blank is a node that is not asked.
func answersOf(text string) (answers []Answer) {
	for _, c := range text {
		a := Answer{Known: c != '?', Failed: c == 'f'}
		switch c {
		case 'x', 'y':
			a.Keys = []command.KeyState{{Value: string(c), TTL: time.Minute}}
		case '.':
			a.Keys = make([]command.KeyState, 1)
		}
		answers = append(answers, a)
	}
	return answers
}

// Each row has the votes of an attempt, which nodes are asked, and whether a silent one is worth the node timeout.
func TestWhomAQueryAsks(t *testing.T) {
	for _, c := range []struct {
		votes, asked string
		brief        bool
	}{
		{"rrr", "???", false},
		{"rr-", "?? ", false}, // those that refused are a majority
		{"grr", " ??", false},
		{"frr", " ??", false}, // the holder is on both
		{"fr-", " ??", false}, // the third node decides whether it is a fault
		{"g-r", " ??", true},  // a holder on a bare quorum, or a split vote
		{"fgr", "  ?", false},
		{"fgrr-", "  ???", true}, // a holder on a bare quorum, or a split vote
		{"frr--", " ????", false},
		{"ffgr-", "   ??", false},     // a third fault
		{"ffggrr-", "    ?? ", false}, // neither a fault nor a quorum is possible
		{"gggrrr-", "   ????", true},
	} {
		q := NewQuery(votesOf(c.votes), len(c.votes)/2+1, 1)
		for node, asked := range c.asked {
			require.Equal(t, asked == '?', q.Asks(node), "node %d of %q", node+1, c.votes)
		}
		require.Equal(t, c.brief, q.Brief(), "%q", c.votes)
	}
}

// Each row has the votes of an attempt, what the nodes have answered to the query, and whether that suffices.
func TestWhenTheAnswersToAQuerySuffice(t *testing.T) {
	for _, c := range []struct {
		votes, answers string
		suffice        bool
	}{
		{"rrr", "xx?", false}, // one that refused is always waited for
		{"rr-", "xx ", true},
		{"rr-", "xy ", true},
		{"fr-", " x?", false}, // a holder, a fault, or neither
		{"fr-", " xx", true},
		{"fr-", " x.", true},
		{"fr-", " xf", true},
		{"fgrr-", "  xx?", false}, // it may have x
		{"fgrr-", "  xy?", true},
		{"fgrr-", "  x.?", true},
		{"ffgr-", "   x?", false}, // it may fail
		{"ffgr-", "   xf", true},
		{"frr--", " xx?f", false},
		{"frr--", " xx?x", true}, // a quorum
	} {
		q := NewQuery(votesOf(c.votes), len(c.votes)/2+1, 1)
		require.Equal(t, c.suffice, q.Suffice(answersOf(c.answers)), "votes %q, answers %q", c.votes, c.answers)
	}
}

// whyAfter is the reason after a query that is over, by Explain.
func whyAfter(votes []Vote, need, names int, answers []Answer) Why {
	var seen Sightings
	f := Failure{Names: names, Need: need, Outages: make([]Outage, len(votes))}
	for i, v := range votes {
		held := false
		for _, k := range answers[i].Keys {
			held = held || !k.Free()
		}
		switch {
		case v == Refused, v == NotAwaited && held:
			f.Refused++
		case v == Failed, v == NotAwaited && answers[i].Failed:
			f.Failed++
		}
		f.Keys = append(f.Keys, answers[i].Keys)
	}
	return seen.Explain(clock.Instant(1), time.Hour, f).Why
}

// reasons adds the reasons that are left, by trying every further answer of the nodes from this one on: a failure, a
// free name, and each token on each name.
func reasons(votes []Vote, need, names, node int, answers []Answer, found map[Why]bool) {
	for node < len(votes) && answers[node].Known {
		node++
	}
	if node == len(votes) {
		found[whyAfter(votes, need, names, answers)] = true
		return
	}
	defer func(before Answer) { answers[node] = before }(answers[node])
	answers[node] = Answer{Known: true, Failed: true}
	reasons(votes, need, names, node+1, answers, found)
	total := 1
	for range names {
		total *= len(fuzzTokens)
	}
	for code := range total {
		answers[node] = Answer{Known: true, Keys: keysBy(code, names)}
		reasons(votes, need, names, node+1, answers, found)
	}
}

var fuzzTokens = []string{"", "x", "y"}

// keysBy are the keys of a node: each name is free or has a token, as the digits of code say.
func keysBy(code, names int) (keys []command.KeyState) {
	for range names {
		keys = append(keys, command.KeyState{Value: fuzzTokens[code%len(fuzzTokens)], TTL: time.Minute})
		code /= len(fuzzTokens)
	}
	return keys
}

// requireSuffice compares a query with the search. code is the state of each node in turn.
func requireSuffice(t *testing.T, nodes, names int, code []byte) {
	t.Helper()
	need := nodes/2 + 1
	votes, answers := make([]Vote, nodes), make([]Answer, nodes)
	for i := range votes {
		votes[i] = Vote(code[i] % 4)
	}
	q := NewQuery(votes, need, names)
	waits := false
	for i := range answers {
		switch how := int(code[i] / 4 % 11); {
		case !q.Asks(i):
			answers[i].Known = true
		case how == 0:
			waits = waits || votes[i] == Refused
		case how == 1:
			answers[i] = Answer{Known: true, Failed: true}
		default:
			answers[i] = Answer{Known: true, Keys: keysBy(how-2, names)}
		}
	}
	found := make(map[Why]bool)
	reasons(votes, need, names, 0, answers, found)
	require.Equal(t, !waits && len(found) == 1, q.Suffice(answers), "votes %v, answers %+v: %v", votes, answers, found)
}

// Answers suffice if every further answer leads to the same reason, and no node that refused is pending.
func FuzzAnswersSufficeWhenNoFurtherOneChangesTheReason(f *testing.F) {
	for _, seed := range []string{"\x02\x02\x00\x00\x00", "\x03\x02\x00\x00\x00", "\x03\x01\x0e\x0e\x00", "\x03\x03\x01\x0e\x00"} {
		f.Add(uint8(2), uint8(0), []byte(seed))
		f.Add(uint8(4), uint8(1), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, nodes, names uint8, code []byte) {
		n := int(nodes%5) + 1
		if len(code) >= n {
			requireSuffice(t, n, int(names%2)+1, code)
		}
	})
}

// Every state of three nodes is tried, for one name.
func TestAnswersSufficeWhenNoFurtherOneChangesTheReason(t *testing.T) {
	const states = 4 * 5 // votes, and answers with one name
	for code := range states * states * states {
		requireSuffice(t, 3, 1, []byte{byte(code % states), byte(code / states % states), byte(code / states / states)})
	}
}
