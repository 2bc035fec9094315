package pool

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// docs/dev/hazards.md H70: the network takes what is written and nothing comes back, without an
// error, for as long as TCP retransmits. The connection is given up after the hard timeout
// and the next one works; what was on it is Unknown, and nothing is sent twice but undos.
func TestABlackHoleCostsOneHardTimeout(t *testing.T) {
	lossy(t, func(t *testing.T, m *fakeredis.Master, n *Node, swallow *atomic.Bool) {
		require.Equal(t, wire.Granted, acquiring("A", longTTL, "k").outcome(t, n))
		m.ForgetLog()
		swallow.Store(true)
		began := time.Now()
		acquire, undo := acquiring("B", longTTL, "l").on(n), releasing("A", "k").within(n, longTTL).on(n)
		synctest.Wait()
		swallow.Store(false) // of the next connection
		r := acquire.reply(t)
		require.Equal(t, wire.Unknown, r.Outcome)
		require.ErrorIs(t, r.Err, ErrSilent)
		require.LessOrEqual(t, time.Since(began), n.cfg.HardTimeout*5/4)
		require.Equal(t, wire.Granted, undo.reply(t).Outcome, "over the next connection")
		require.Less(t, time.Since(began), n.cfg.HardTimeout*5/4+time.Second)
		require.Zero(t, count(m, "SET"))
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
	})
}

// A connection with nothing to say is probed by the system: within 30 s it is known to be
// dead, also where nobody asks.
func TestAnIdleConnectionIsProbed(t *testing.T) {
	require.True(t, keepAlive.Enable)
	require.LessOrEqual(t, keepAlive.Idle+time.Duration(keepAlive.Count)*keepAlive.Interval, 30*time.Second)
}
