package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// tenure is a hold that was valid to its end.
type tenure struct {
	from, to time.Time
	fence    int64
}

// tenures are the holds of one name by all contenders, and the answers of one node to them.
type tenures struct {
	mu    sync.Mutex // guards what follows
	holds []tenure

	quarantined time.Time // when the request was sent that the node first refused for its quarantine
	back        time.Time // when it first granted again
}

// quarantineSeen is how late a busy machine may see that a quarantine has begun. MaxAge is longer.
const quarantineSeen = sentinelMaxAge - 500*time.Millisecond

// contend acquires a name repeatedly until ctx is done.
func (s *tenures) contend(ctx context.Context, t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	for ctx.Err() == nil {
		k, err := l.Acquire(ctx, name, sentinelTTL)
		if err != nil {
			assert.Error(t, ctx.Err(), "%v", err)
			return
		}
		held := tenure{from: time.Now(), fence: k.Fence()}
		left := k.Remaining()
		end := time.Now().Add(left)
		time.Sleep(2 * time.Millisecond)
		held.to = time.Now()
		if k.Remaining() > 0 { // on a busy machine a hold may exceed its validity, which the holder was told
			s.mu.Lock()
			s.holds = append(s.holds, held)
			s.mu.Unlock()
		}
		err = k.Release(context.WithoutCancel(ctx))
		over := errors.Is(err, redlock.ErrLost) && time.Now().After(end)
		if !over && !unanswered(err, "a") {
			assert.NoError(t, err)
		}
	}
}

// unanswered reports whether a release has no quorum because this node, which is killed, and perhaps another one
// did not answer it. A dial to a killed node may be refused.
func unanswered(release error, node string) bool {
	var qe *redlock.QuorumError
	if !errors.Is(release, redlock.ErrNoQuorum) || !errors.As(release, &qe) {
		return false
	}
	unknown := func(v redlock.Vote) bool { return v.Outcome == redlock.OutcomeUnknown }
	killed := func(v redlock.Vote) bool { return v.Node == node && (unknown(v) || v.Outcome == redlock.OutcomeFailed) }
	return slices.ContainsFunc(qe.Votes, unknown) && slices.ContainsFunc(qe.Votes, killed)
}

// watch records the votes of the node.
func (s *tenures) watch(node string) redlock.Option {
	return redlock.WithTrace(&redlock.Trace{Vote: func(e redlock.VoteEvent) {
		if e.Vote.Node != node || e.Op != "acquire" {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var why *redlock.QuarantineError
		switch {
		case errors.As(e.Vote.Err, &why) && s.quarantined.IsZero():
			s.quarantined = time.Now().Add(-e.Vote.Took)
		case e.Vote.Outcome == redlock.OutcomeGranted && !s.quarantined.IsZero() && s.back.IsZero():
			s.back = time.Now()
		}
	}})
}

func (s *tenures) state() (holds []tenure, quarantined, back time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.holds), s.quarantined, s.back
}

// requireOrder checks that there were no two holders at once, and that fences increase.
func requireOrder(t *testing.T, holds []tenure) {
	t.Helper()
	slices.SortFunc(holds, func(a, b tenure) int { return a.from.Compare(b.from) })
	for i := 1; i < len(holds); i++ {
		require.False(t, holds[i].from.Before(holds[i-1].to), "two holders: %v and %v", holds[i-1], holds[i])
		require.Equal(t, -1, cmp.Compare(holds[i-1].fence, holds[i].fence), "fences: %v and %v", holds[i-1], holds[i])
	}
}

// Three Sentinels watch the first of three groups. Its master is killed, and only the Sentinels
// react.
func TestLocksOutliveAMasterThatIsKilledBehindItsSentinels(t *testing.T) {
	groups := startGroups(t, 3, 1, 1)
	log := &tenures{}
	l, nodes := behind(t, &side{}, groups, redlock.WithFencing(), log.watch("a"))
	other, _ := behind(t, &side{}, groups, redlock.WithFencing(), log.watch("a"))
	mustAdmit(t, l, mastersOf(groups))
	var kept []*redlock.Lock
	for i := range 4 {
		kept = append(kept, acquired(t, l, fmt.Sprintf("kept/%d", i), sentinelTTL, redlock.WithAutoExtend()))
	}
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var contenders sync.WaitGroup
	for i := range 4 {
		contenders.Go(func() { log.contend(ctx, t, []*redlock.Locker{l, other}[i%2], "contested") })
	}
	await(t, "the lock passes from holder to holder", func() bool { holds, _, _ := log.state(); return len(holds) > 20 })

	killed := time.Now()
	groups[0].Master.Kill(t)
	dead := time.Now()
	await(t, "the lock passes from holder to holder while there is no master", func() bool {
		holds, _, _ := log.state()
		return slices.ContainsFunc(holds, func(h tenure) bool { return h.from.After(dead) })
	})
	groups[0].ReplaceMaster(t)
	groups[0].AwaitSwitch(t, groups[0].Master, groups[0].Sentinels...)
	groups[0].KeepMaster(t)
	awaitFor(t, failoverWithin, "the promoted replica votes", func() bool { _, _, back := log.state(); return !back.IsZero() })
	_, quarantined, back := log.state()
	await(t, "the lock passes from holder to holder", func() bool {
		holds, _, _ := log.state()
		return slices.ContainsFunc(holds, func(h tenure) bool { return h.from.After(back) })
	})
	stop()
	contenders.Wait()

	assert.Same(t, groups[0].Replica, groups[0].Present(t, groups[0].Sentinels[0]))
	assert.Equal(t, int64(1), nodes[0].Stats().Switches)
	assert.GreaterOrEqual(t, back.Sub(quarantined), sentinelTTL+sentinelMaxAge-quarantineSeen, "a promoted replica waits for maxTTL and MaxAge")
	holds, _, _ := log.state()
	requireOrder(t, holds)
	during := map[string]int{}
	for _, h := range holds {
		switch {
		case h.from.Before(killed):
			during["before"]++
		case h.from.Before(quarantined):
			during["while there is no master"]++
		case h.from.Before(back):
			during["while it is quarantined"]++
		default:
			during["after"]++
		}
	}
	t.Logf("acquired: %v; no master for %v, quarantined for %v", during, quarantined.Sub(killed), back.Sub(quarantined))
	assert.Len(t, during, 4, "the lock passed from holder to holder all the time")
	assert.Greater(t, time.Since(began), sentinelTTL, "locks that were not extended have expired")
	for _, k := range kept {
		confirmedBehind(t, k)
		require.NoError(t, k.Release(t.Context()))
	}
}
