package signal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/signal"
)

func TestSignalsBeforeTheReceiveCountAsOne(t *testing.T) {
	s := signal.New()
	s.Set()
	s.Set()
	<-s
	require.Empty(t, s)
	s.Set()
	s.Clear()
	s.Clear()
	require.Empty(t, s)
}

func TestABroadcastWakesAllThatWait(t *testing.T) {
	var b signal.Broadcast
	b.Wake() // no goroutine waits
	one, two := b.Next(), b.Next()
	require.Empty(t, one)
	b.Wake()
	<-one
	<-two
	select {
	case <-b.Next():
		require.Fail(t, "a goroutine that waits from now on is woken by the next call only")
	default:
	}
}
