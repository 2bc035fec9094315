package redlock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
)

// H30, H58: the error of a server that cannot vote is a failure with its code, never a refusal. An
// unknown code leaves the outcome unknown. One such node does not prevent a lock. Two of three are
// a fault, and the third's key is undone.
func TestErrorsOfServersAreDistinguishedFromRefusals(t *testing.T) {
	for reply, want := range map[string]Outcome{
		"LOADING Redis is loading the dataset in memory":                                   OutcomeFailed,
		"READONLY You can't write against a read only replica.":                            OutcomeFailed,
		"OOM command not allowed when used memory > 'maxmemory'.":                          OutcomeFailed,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to":  OutcomeFailed,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or":            OutcomeFailed,
		"NOAUTH Authentication required.":                                                  OutcomeFailed,
		"NOPERM User default has no permissions to run the 'set' command":                  OutcomeFailed,
		"NOREPLICAS Not enough good replicas to write.":                                    OutcomeFailed,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": OutcomeFailed,
		"CLUSTERDOWN Hash slot not served":                                                 OutcomeFailed,
		"MOVED 15495 127.0.0.1:7002":                                                       OutcomeFailed,
		"ERR unknown command 'SET'":                                                        OutcomeFailed,
		"ERR max number of clients reached":                                                OutcomeFailed,
		"ERR something went wrong half-way":                                                OutcomeUnknown,
		"NEWCODE of a server to come":                                                      OutcomeUnknown,
		"+QUEUED":                                                                          OutcomeUnknown,
		":7":                                                                               OutcomeUnknown,
		"$-1":                                                                              OutcomeRefused,
	} {
		if want == OutcomeRefused && late.On() {
			continue // a tie does not wait for the third node
		}
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			fl.masters[0].FailWith("SET", reply)
			k, err := l.TryAcquire(bg, "a", time.Hour)
			require.NoError(t, err, reply)
			require.NoError(t, k.Release(bg))
			time.Sleep(time.Second) // some of these errors end the connection: it is dialled again by then
			fl.masters[1].FailWith("SET", reply)
			err = tried(l)
			require.Equal(t, []Outcome{want, want}, votes(t, err)[:2], reply)
			if want == OutcomeRefused {
				matches(t, err, ErrHeld)
				return
			}
			matches(t, err, ErrNoQuorum)
			if reply[0] != '+' && reply[0] != ':' {
				var se *pool.ServerError
				require.ErrorAs(t, err, &se, reply)
				require.Equal(t, reply, se.Text)
				require.ErrorContains(t, err, "n1: "+want.String()+": "+reply)
			}
			fl.each(func(m *fakeredis.Master) { m.FailWith("SET", "") })
			time.Sleep(time.Second)
			require.Empty(t, fl.left(), reply)
			require.Zero(t, booked(l), reply)
		})
	}
}

// The text names the operation, the lock, each node and its answer. errors.Is and errors.As find
// the nodes' errors.
func TestAQuorumErrorNamesTheLockAndEveryVote(t *testing.T) {
	loading := &pool.ServerError{Code: "LOADING", Text: "LOADING the dataset"}
	e := &QuorumError{
		Op: "acquire", Names: []string{"invoice/42"}, Need: 3, Reason: ErrHeld,
		Votes: []Vote{
			{Node: "a:6379/0", Outcome: OutcomeGranted, Took: time.Millisecond},
			{Node: "b:6379/0", Outcome: OutcomeRefused, Err: &HeldError{Owner: "worker-7", Remaining: 2500 * time.Millisecond}},
			{Node: "c:6379/0", Outcome: OutcomeRefused, Err: &HeldError{Remaining: -time.Millisecond}},
			{Node: "d:6379/0", Outcome: OutcomeFailed, Err: loading},
			{Node: "e:6379/0", Outcome: OutcomeUnknown, Err: ErrNodeTimeout},
		},
	}
	require.Equal(t, `redlock: held by another client: acquire "invoice/42": 1 of 5 votes, 3 needed [a:6379/0: granted; `+
		`b:6379/0: refused: held by "worker-7" for 2.5s more; c:6379/0: refused: held without an expiry; `+
		`d:6379/0: failed: LOADING the dataset; e:6379/0: unknown: no answer within the node timeout]`, e.Error())
	matches(t, e, ErrHeld, ErrNodeTimeout)
	var he *HeldError
	require.ErrorAs(t, e, &he)
	require.Equal(t, "worker-7", he.Owner)
	var se *pool.ServerError
	require.ErrorAs(t, e, &se)
	require.Equal(t, "LOADING", se.Code)
	var v voteError
	require.ErrorAs(t, e, &v)
	require.Equal(t, "b:6379/0", v.vote.Node)
	require.Len(t, e.Unwrap(), 5) // the reason, and all votes but the grant

	e.Names, e.Op, e.Reason, e.Expires = []string{"a", `b"c`}, "release", ErrNoQuorum, time.Minute
	require.Contains(t, e.Error(), `redlock: no quorum of nodes could be reached: release ["a" "b\"c"]: 1 of 5 votes, 3 needed; leftover keys expire within 1m0s [a:6379/0: granted; `)
	require.False(t, errors.Is(e, ErrHeld))
	require.Equal(t, "held by \"x\" for 0s more", (&HeldError{Owner: "x", Remaining: time.Microsecond}).Error())
	require.Equal(t, "held by \"x\" for 2s more (id 0123)", (&HeldError{Owner: "x", ID: "0123", Remaining: 2 * time.Second}).Error())
}

// A wrapped error keeps all of this. Of a token it shows only the label.
func TestErrorsShowTheHoldersLabelAndNoToken(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k, err := fl.locker(WithOwner("worker-7")).Acquire(bg, "invoice/42", time.Minute)
		require.NoError(t, err)
		err = fmt.Errorf("settling: %w", func() error {
			_, err := fl.locker().TryAcquire(bg, "invoice/42", time.Minute)
			return err
		}())
		require.ErrorIs(t, err, ErrHeld)
		var qe *QuorumError
		require.ErrorAs(t, err, &qe)
		require.Equal(t, "acquire", qe.Op)
		require.Equal(t, []string{"invoice/42"}, qe.Names)
		require.Equal(t, 2, qe.Need)
		require.Len(t, qe.Votes, 3)
		var he *HeldError
		require.ErrorAs(t, err, &he)
		require.Equal(t, HeldError{Owner: "worker-7", ID: k.ID(), Remaining: time.Minute}, *he)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, he), k.Token()[len("worker-7:"):])
		oneLine(t, err)
	})
	// A token of another client has no label, whatever its form.
	for _, value := range []string{"x", "a:b", "worker:abcdefghijklmnopqrstuvwxyz", "8d2f8e4a-3b1c-4a4e-9c55-0242ac120002"} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.Set("a", value, time.Minute) })
			err := tried(fl.locker())
			require.ErrorContains(t, err, "refused: held for 1m0s more")
			require.NotContains(t, err.Error(), value+":")
		})
	}
}

// Each vote has the time that it took. An error does not change after it was made.
func TestVotesSayHowLongTheyTook(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
		for i, d := range []time.Duration{20 * time.Millisecond, 30 * time.Millisecond, time.Hour} {
			nodes[i].script = func(_ *fakeNode, c *command.Command) bool {
				if c.Op == command.Acquire {
					c.MarkSent()
					time.AfterFunc(d, func() { c.Answer(command.Reply{Outcome: command.Failed, Err: errSome}) })
				}
				return c.Op == command.Acquire
			}
		}
		var qe *QuorumError
		require.ErrorAs(t, tried(l), &qe)
		require.Equal(t, 20*time.Millisecond, qe.Votes[0].Took)
		require.Equal(t, 30*time.Millisecond, qe.Votes[1].Took)
		require.ErrorContains(t, qe, "n3: unknown: decided before this node answered")
	})
}
