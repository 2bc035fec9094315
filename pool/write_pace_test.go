package pool

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A silent peer is not written to for every command: a few hundred writes in the first second, and
// then a hundred a second.
//
// What was cancelled meanwhile is never sent, and all else is answered once the peer continues.
func TestLittleIsWrittenToASilentPeer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		synctest.Wait()
		m.Freeze()
		before := n.Stats()
		var kept, given []*call
		unsent := 0
		for range 2000 { // in two seconds
			kept, given = append(kept, pinging().On(n)), append(given, pinging().On(n))
			time.Sleep(time.Millisecond)
			if given[len(given)-1].Cancel() {
				unsent++
			}
		}
		after := n.Stats()
		require.Less(t, after.Writes-before.Writes, int64(400), "of 4,000 commands")
		require.Greater(t, unsent, 1500)
		began := time.Now()
		m.Unfreeze()
		for _, c := range kept {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		require.LessOrEqual(t, time.Since(began), 10*time.Millisecond, "the longest pause")
		for _, c := range given {
			c.Reply(t)
		}
		synctest.Wait()
		require.Less(t, n.Stats().Written-before.Written, int64(len(kept)+len(given)-unsent+1))
		synctest.Wait()
		began = time.Now()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.Zero(t, time.Since(began), "it has answered since")
	})
}

// A peer that was sent nothing owes no answer. Commands that were cancelled before they were
// written do not count.
func TestAPeerThatWasAskedNothingIsNotTakenForSilent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		synctest.Wait()
		for range 2 * batchThreshold {
			c := pinging()
			c.Cancel()
			require.Equal(t, command.Failed, c.Outcome(t, n))
		}
		time.Sleep(time.Second)
		began := time.Now()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.Zero(t, time.Since(began))
	})
}

// A distant peer is not taken for silent. Commands wait for a small part of the round trip at
// first, and not at all once answers arrive.
func TestAFarPeerIsWrittenToAtOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		const far = 200 * time.Millisecond // four times the silence after which the writer pauses
		m.SetDelay(far)
		took := make([]time.Duration, 1000)
		var all sync.WaitGroup
		for i := range took {
			all.Go(func() {
				began := time.Now()
				assert.Equal(t, command.Granted, pinging().Outcome(t, n))
				took[i] = time.Since(began)
			})
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		const flowing = int(far/time.Millisecond) + 10
		require.Equal(t, far, slices.Min(took))
		require.LessOrEqual(t, slices.Max(took[:flowing]), far+far/50)
		require.Equal(t, far, slices.Max(took[flowing:]))
	})
}
