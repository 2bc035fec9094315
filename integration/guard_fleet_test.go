package integration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// marker is the restart guard's key on each node.
const marker = "redlock:guard"

// admitError is the error of an admission. It is repeated until the masters have answered in time.
func admitError(t *testing.T, l *redlock.Locker, masters []*redistest.Node) (err error) {
	t.Helper()
	await(t, "all masters answer in time", func() bool {
		_, err = doctor.Admit(t.Context(), l)
		return err == nil || redistest.Admitted(t, masters, err.Error())
	})
	return err
}

// mustAdmit is an admission that must succeed.
func mustAdmit(t *testing.T, l *redlock.Locker, masters []*redistest.Node) {
	t.Helper()
	require.NoError(t, admitError(t, l, masters))
}

// examined is a diagnosis. It is repeated until all servers have answered in time.
func examined(t *testing.T, l *redlock.Locker) (r *doctor.Report) {
	t.Helper()
	await(t, "all servers answer the doctor in time", func() bool {
		var err error
		r, err = doctor.Diagnose(t.Context(), l)
		require.NoError(t, err)
		return !slices.ContainsFunc(r.All(), func(f doctor.Finding) bool { return strings.Contains(f.Text, "could not be examined") })
	})
	return r
}

// refusal is the error of an attempt that must fail. An attempt that a node did not answer in time is repeated.
func refusal(t *testing.T, l *redlock.Locker, name string, ttl time.Duration) (err error) {
	t.Helper()
	await(t, "nodes refuse in time", func() bool {
		_, err = l.TryAcquire(t.Context(), name, ttl)
		require.Error(t, err)
		return !isLate(err)
	})
	return err
}

// isLate reports whether a node did not answer in time.
func isLate(err error) bool {
	return errors.Is(err, redlock.ErrNodeTimeout) || errors.Is(err, pool.ErrExpired)
}

// refusedIn requires that a Locker cannot acquire because nodes are unfit, and that the error
// contains these words.
func refusedIn(t *testing.T, l *redlock.Locker, words string) {
	t.Helper()
	err := refusal(t, l, "x", guardTTL)
	require.ErrorIs(t, err, redlock.ErrUnfit)
	require.ErrorContains(t, err, words)
}

// A lock with automatic extension survives the restart of all its nodes, one after the other, with
// WithRepair. Without it the lock is lost at the second restart, because the first node never gets
// the lock again.
func TestARollingRestartWithAndWithoutRepair(t *testing.T) {
	s := &site{nodes: masters(t, 3)}
	const ttl = 2 * busyTimeout // a machine that stands still for a node timeout ends no lock
	guard := redlock.WithRestartGuard(ttl)
	// kept reports whether the lock is still held. Only a machine that stopped for longer may end it: the client's, or that of
	// a server that has not answered.
	kept := func(t *testing.T, k *redlock.Lock) bool {
		t.Helper()
		var lost *redlock.LostError
		if errors.As(k.Err(), &lost) {
			silent := slices.ContainsFunc(lost.Votes, func(v redlock.Vote) bool { return v.Outcome == redlock.OutcomeUnknown })
			if lost.Reason == redlock.LossPaused || lost.Reason == redlock.LossNoQuorum && silent {
				t.Log(lost)
				return false
			}
		}
		require.NoError(t, k.Err())
		return true
	}
	restart := func(t *testing.T, k *redlock.Lock, watch *redlock.Locker, node int) bool {
		t.Helper()
		s.nodes[node].Restart(t)
		await(t, "node is ok", func() bool {
			r, err := doctor.Diagnose(t.Context(), watch)
			return err == nil && r.Nodes[node].Guard == "ok" || !kept(t, k)
		})
		return kept(t, k)
	}
	with := func(t *testing.T) bool {
		t.Helper()
		s.fresh(t, guard)
		l := s.client(t, nil, guard, redlock.WithRepair())
		defer closeLocker(t, l)
		k := acquired(t, l, "x", ttl, redlock.WithAutoExtend())
		heldEverywhere(t, s.nodes, "x")
		for node := range s.nodes {
			if !restart(t, k, l, node) {
				return false
			}
			await(t, "the node has the key again", func() bool {
				held, err := s.nodes[node].Try("EXISTS", "x")
				return err == nil && held == int64(1) || !kept(t, k)
			})
		}
		if !kept(t, k) {
			return false
		}
		confirmed(t, k)
		released(t, k)
		return true
	}
	without := func(t *testing.T) bool {
		t.Helper()
		s.fresh(t, guard)
		l := s.client(t, nil, guard)
		defer closeLocker(t, l)
		k := acquired(t, l, "x", ttl, redlock.WithAutoExtend())
		heldEverywhere(t, s.nodes, "x")
		if !restart(t, k, l, 0) {
			return false
		}
		s.nodes[1].Restart(t)
		<-k.Context().Done()
		require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLost)
		return true
	}
	for what, try := range map[string]func(*testing.T) bool{"with": with, "without": without} {
		t.Run(what, func(t *testing.T) {
			for tries := 1; !try(t); tries++ {
				require.Less(t, tries, 3, "the lock was lost each time")
			}
		})
	}
}

// docs/dev/hazards.md H40: clients that disagree about the nodes or maxTTL do not exclude each other,
// and the later ones are refused.
func TestClientsThatDoNotAgreeAreRefused(t *testing.T) {
	servers := masters(t, 5)
	ours := &site{nodes: servers[:3]}
	const maxTTL = time.Minute // no quarantine is waited for
	guard := redlock.WithRestartGuard(maxTTL)
	ours.fresh(t, guard)
	k := acquired(t, ours.client(t, nil, guard), "x", maxTTL, redlock.WithAutoExtend())
	for differs, l := range map[string]*redlock.Locker{
		"the list is longer":             (&site{nodes: servers}).client(t, nil, guard),
		"maxTTL":                         ours.client(t, nil, redlock.WithRestartGuard(2*maxTTL)),
		"the names, which are addresses": open(t, servers[:3], guard),
		"the names are swapped":          (&site{nodes: []*redistest.Node{servers[1], servers[0], servers[2]}}).client(t, nil, guard),
		"the list is another subset":     (&site{nodes: servers[:2]}).client(t, nil, guard),
	} {
		refusedIn(t, l, "give all clients the same settings: ")
		await(t, "the first node is foreign if "+differs+" differs", func() bool {
			r, err := doctor.Admit(t.Context(), l)
			require.ErrorIs(t, err, doctor.ErrNotAdmitted, differs)
			return r.Nodes[0].Guard == "foreign" // a node that did not answer in time has no state
		})
	}
	released(t, k)
}

// docs/dev/hazards.md H112, as documented: a client without the guard is refused by a node with a
// marker. If it excepts the nodes, it and the guarded clients exclude each other, but the guard
// does not see its locks.
func TestNodesOfSeveralKindsHaveExclusionAndNoGuard(t *testing.T) {
	s := &site{nodes: masters(t, 3)}
	const maxTTL = 3 * busyTimeout // a machine that stands still for a node timeout ends no lock
	guard := redlock.WithRestartGuard(maxTTL)
	// As in a rolling deployment: an old client runs when the first guarded client starts.
	s.fresh(t)
	before := s.client(t, nil)
	released(t, acquired(t, before, "x", time.Minute))
	l := s.client(t, nil, guard)
	require.ErrorIs(t, refusal(t, l, "x", maxTTL), redlock.ErrQuarantined, "quarantined for maxTTL after the first contact")
	k := acquired(t, before, "x", time.Minute) // on its existing connections
	a, err := l.TryAcquire(t.Context(), "y", maxTTL)
	require.Nil(t, a)
	require.Error(t, err)
	released(t, acquired(t, l, "y", maxTTL))
	require.ErrorIs(t, refusal(t, l, "x", maxTTL), redlock.ErrHeld, "both exclude each other")
	released(t, k)

	refusedIn(t, s.client(t, nil), "use WithRestartGuard")
	excepted := redlock.WithUnsafeNodes("n1", "n2", "n3")
	old, refused := s.client(t, []int{1}, excepted), s.client(t, []int{1}, excepted, hasty)
	a = acquired(t, s.client(t, []int{3}, guard), "x", maxTTL)
	await(t, "the old client is refused", func() bool {
		_ = a.Extend(t.Context(), maxTTL) // below it must succeed
		_, err = refused.TryAcquire(t.Context(), "x", time.Minute)
		require.Error(t, err)
		return errors.Is(err, redlock.ErrHeld)
	})
	// Not WithAutoExtend: an extension that follows finds the second node empty.
	await(t, "the lock has its whole TTL", func() bool {
		require.NoError(t, a.Err())
		return a.Extend(t.Context(), maxTTL) == nil
	})
	s.nodes[1].Do(t, "FLUSHALL")
	k = acquired(t, old, "x", time.Minute)
	assert.Positive(t, a.Remaining(), "two clients hold the lock: the guard is void until the last old client has stopped")
	released(t, k)
	_ = a.Release(context.Background())
}

// From three nodes to five, and to another maxTTL, by the steps of docs/operations.md.
func TestTheListOfNodesAndMaxTTLAreChangedByTheProcedure(t *testing.T) {
	late.LeaveOut(t, "a client that has ended may begin a quarantine on the late node after the test has deleted the markers")
	servers := masters(t, 5)
	old, grown := &site{nodes: servers[:3]}, &site{nodes: servers}
	const oldTTL, newTTL = time.Minute, 2 * time.Minute
	was, becomes := redlock.WithRestartGuard(oldTTL), redlock.WithRestartGuard(newTTL)
	old.fresh(t, was)
	holder := old.client(t, nil, was)
	k := acquired(t, holder, "x", oldTTL, redlock.WithAutoExtend())

	// Too early: old clients still run.
	l := grown.client(t, nil, becomes)
	refusedIn(t, l, "the list of the nodes' names is another one")
	_, err := doctor.Admit(t.Context(), l)
	require.ErrorIs(t, err, doctor.ErrNotAdmitted)

	// 1. Stop the old clients, since each would begin a quarantine where it finds no marker, and wait for the old
	// maxTTL. One of them dies with its lock.
	require.NoError(t, k.Extend(t.Context(), oldTTL))
	_, err = k.Detach()
	require.NoError(t, err)
	closeLocker(t, holder)
	closeLocker(t, l)
	// 2. Delete the markers.
	for _, n := range old.nodes {
		n.Do(t, "DEL", marker)
	}
	for _, n := range servers { // the Locker above has begun quarantines on the new nodes
		n.Do(t, "DEL", marker)
	}
	// 3. Admit the nodes. An operator who did not wait is refused by a lock that is still held.
	l = grown.client(t, nil, becomes)
	err = admitError(t, l, servers)
	require.ErrorIs(t, err, doctor.ErrNotAdmitted)
	require.ErrorContains(t, err, `has a key that may be a lock ("x"`)
	for _, n := range old.nodes {
		n.Do(t, "PEXPIRE", "x", 1) // instead of a wait for the whole maxTTL
	}
	await(t, "the old locks have expired", func() bool {
		err = admitError(t, l, servers)
		return !errors.Is(err, doctor.ErrNotAdmitted)
	})
	require.NoError(t, err)
	began := time.Now()
	released(t, acquired(t, grown.client(t, nil, becomes), "x", newTTL))
	assert.Less(t, time.Since(began), newTTL/4, "the new clients do not have to wait")
	refusedIn(t, old.client(t, nil, was), "the list of the nodes' names is another one")
	redistest.NoKeys(t, servers, time.Second)
}
