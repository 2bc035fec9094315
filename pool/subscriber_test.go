package pool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/embedded"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// downs keeps why connections of a subscription ended.
type downs chan error

func (d downs) Subscribed(string)      {}
func (d downs) Message(string, string) {}
func (d downs) Down(err error)         { d <- err }

// docs/hazards.md H111, also on the line that carries hints only.
func TestWhatASubscriptionSaysIsNotTheCallersDeadline(t *testing.T) {
	for name, fault := range map[string]func(m *embedded.Master){
		"silent, and then a mute server": func(m *embedded.Master) { m.Freeze() },
		"stopped":                        func(m *embedded.Master) { m.Stop() },
		"no right to subscribe":          func(m *embedded.Master) { m.Deny("SUBSCRIBE") },
	} {
		inBubble(t, nil, func(t *testing.T, m *embedded.Master, n *Node) {
			heard := make(downs, 100)
			s := n.Subscribe(heard)
			defer s.Close()
			synctest.Wait()
			fault(m)
			s.Add("a")
			for range 3 {
				err := <-heard
				require.Error(t, err, name)
				require.NotErrorIs(t, err, context.DeadlineExceeded, name)
				require.NotErrorIs(t, err, context.Canceled, name)
			}
		})
	}
}

func TestARefusedSubscriptionIsToldAndTriedWithBackoff(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *embedded.Master, n *Node) {
		m.Deny("SUBSCRIBE")
		heard := make(downs, 1000)
		s := n.Subscribe(heard)
		defer s.Close()
		s.Add("a")
		require.ErrorContains(t, <-heard, "NOPERM")
		time.Sleep(time.Minute)
		require.Less(t, len(heard), 60_000/250+20)
		synctest.Wait()
		require.LessOrEqual(t, m.Connections(), 2)
		require.Equal(t, wire.Granted, pinging().outcome(t, n), "the node itself is well")
	})
}

func TestCloseOfASubscriptionDoesNotWaitForAFrozenMaster(t *testing.T) {
	for _, connected := range []bool{true, false} {
		inBubble(t, nil, func(t *testing.T, m *embedded.Master, n *Node) {
			require.Equal(t, wire.Granted, pinging().outcome(t, n))
			if !connected {
				m.Freeze()
			}
			s := n.Subscribe(make(downs, 100))
			s.Add("a")
			synctest.Wait()
			m.Freeze()
			began := time.Now()
			s.Close()
			require.Zero(t, time.Since(began))
		})
	}
}
