package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// ballotLetters are the letters of a vote vector.
const ballotLetters = "grfq"

// ballotReply is the reply that a letter denotes. A quarantine lasts a second longer on each node.
func ballotReply(letter byte, node int) command.Reply {
	switch letter {
	case 'g':
		return command.Reply{Outcome: command.Granted}
	case 'r':
		return command.Reply{Outcome: command.Refused}
	case 'q':
		return command.Reply{Outcome: command.Failed, Err: &QuarantineError{Node: "n", Remaining: time.Duration(node+1) * time.Second}}
	}
	return command.Reply{Outcome: command.Failed, Err: errSome}
}

// endOf returns the error that TryAcquire must return, and how long no quorum can vote.
func endOf(vector string) (left time.Duration, want error) {
	n := map[byte]int{}
	need, spare := len(vector)/2+1, (len(vector)-1)/2
	for i := range len(vector) {
		n[vector[i]]++
	}
	switch {
	case n['g'] >= need:
		return 0, nil
	case n['f']+n['q'] > spare:
		return faultOf(vector, spare)
	}
	return 0, ErrHeld
}

// faultOf uses all votes: they have arrived when the reason is read.
func faultOf(vector string, spare int) (left time.Duration, want error) {
	failed, all := 0, []time.Duration{}
	for i := range len(vector) {
		switch vector[i] {
		case 'f':
			failed++
		case 'q':
			all = append(all, time.Duration(i+1)*time.Second)
		}
	}
	if len(all) == 0 || failed > spare {
		return 0, ErrNoQuorum
	}
	return all[failed+len(all)-spare-1], ErrQuarantined
}

func TestWhatAnAttemptEndsByForAllVotesUnderTheGuard(t *testing.T) {
	for _, n := range []int{3, 5} {
		vectors := []string{""}
		for range n {
			var next []string
			for _, v := range vectors {
				for i := range ballotLetters {
					next = append(next, v+ballotLetters[i:i+1])
				}
			}
			vectors = next
		}
		inFakes(t, n, func(t *testing.T, nodes []*fakeNode, l *Locker) {
			for _, v := range vectors {
				for i, node := range nodes {
					node.script = answering(ballotReply(v[i], i))
				}
				k, err := l.TryAcquire(bg, "a", guardTTL)
				left, want := endOf(v)
				if want == nil {
					require.NoError(t, err, v)
					_ = k.Release(bg)
					continue
				}
				require.ErrorIs(t, err, want, v)
				for _, other := range []error{ErrHeld, ErrNoQuorum, ErrQuarantined} {
					require.Equal(t, other.Error() == want.Error(), is(err, other), "%s %v", v, other)
				}
				require.Equal(t, left, quarantines(t, err), v)
			}
		}, WithRestartGuard(guardTTL))
	}
}

// is compares the reason of err, without the nodes' errors.
func is(err error, reason error) bool {
	var qe *QuorumError
	return fmt.Sprintf("%T", err) == fmt.Sprintf("%T", qe) && err.(*QuorumError).Reason.Error() == reason.Error() //nolint:errorlint,forcetypeassert // the very value
}

// Nodes that had not answered are taken to be healthy.
func TestHowLongNoQuorumCanVoteWhenNotAllHaveAnswered(t *testing.T) {
	e := &QuorumError{Need: 3, Reason: ErrQuarantined, Votes: []Vote{
		{Outcome: OutcomeFailed, Err: &QuarantineError{Remaining: 3 * time.Second}},
		{Outcome: OutcomeFailed, Err: &QuarantineError{Remaining: time.Second}},
		{Outcome: OutcomeFailed, Err: &QuarantineError{Remaining: 2 * time.Second}},
		{Outcome: OutcomeUnknown, Err: vote.ErrNotAwaited},
		{Outcome: OutcomeUnknown, Err: vote.ErrNotAwaited},
	}}
	require.Equal(t, time.Second, e.QuarantinedFor())
	e.Votes[3].Err = ErrNodeTimeout
	require.Equal(t, 2*time.Second, e.QuarantinedFor())
	e.Reason = ErrHeld
	require.Zero(t, e.QuarantinedFor())
}
