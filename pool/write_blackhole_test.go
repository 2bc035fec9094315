package pool

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/hazards.md H70: the network accepts what is written and returns nothing, without an
// error, for as long as TCP retransmits. The connection is given up after the hard timeout, and the
// next one works.
//
// The commands on it are Unknown, and only undos are sent twice.
func TestABlackHoleCostsOneHardTimeout(t *testing.T) {
	lossy(t, func(t *testing.T, m *fakeredis.Master, n *Node, swallow *atomic.Bool) {
		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		m.ForgetLog()
		swallow.Store(true)
		began := time.Now()
		acquire, undo := acquiring("B", longTTL, "l").On(n), releasing("A", "k").Within(n, longTTL).On(n)
		synctest.Wait()
		swallow.Store(false) // on the next connection
		r := acquire.Reply(t)
		require.Equal(t, command.Unknown, r.Outcome)
		require.ErrorIs(t, r.Err, ErrSilent)
		require.LessOrEqual(t, time.Since(began), n.cfg.HardTimeout*5/4)
		require.Equal(t, command.Granted, undo.Reply(t).Outcome, "over the next connection")
		require.Less(t, time.Since(began), n.cfg.HardTimeout*5/4+time.Second)
		require.Zero(t, count(m, "SET"))
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}
