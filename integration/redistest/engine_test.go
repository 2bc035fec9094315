package redistest_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

func TestWhatABusyEngineRefusesIsAskedAgainWithinABound(t *testing.T) {
	unable := errors.New("unable to freeze")
	asked := 0
	redistest.Repeated(t, func() error {
		if asked++; asked == 1 {
			return unable
		}
		return nil
	})
	assert.Equal(t, 2, asked)

	asked = 0
	said := failureOf(t, func(t testing.TB) {
		redistest.Repeated(t, func() error {
			asked++
			return unable
		})
	})
	assert.Equal(t, 3, asked)
	assert.Equal(t, "redistest: the machine failed (Docker), and not the library: do it: unable to freeze (3 tries)", said)
}

// What the engine did although it reported a failure is not done again: a second kill fails, but the server
// is dead.
func TestAFaultThatIsThereAlreadyIsNoFailure(t *testing.T) {
	n := redistest.StartOnNetwork(t, 1)[0]
	n.Kill(t)
	n.Kill(t)
	n.Stop(t)
	n.Restart(t)
	n.Disconnect(t)
	n.Disconnect(t)
	n.Connect(t)
	n.Connect(t)
	assert.Equal(t, "PONG", n.Do(t, "PING"))
}

func TestAServerHasOneAddressIfItIsOnTheNetworkOfThisMachine(t *testing.T) {
	for name, start := range map[string]func(testing.TB, int, ...string) []*redistest.Node{
		"on it": redistest.Start, "on one of Docker": redistest.StartOnNetwork,
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, 1)[0]
			host, port := n.Inside(t)
			on := redistest.OnMachine() && name == "on it"
			assert.Equal(t, on, net.JoinHostPort(host, port) == n.Addr())
			if on {
				assert.Contains(t, failureOf(t, func(t testing.TB) { n.Disconnect(t) }), "can't be disconnected")
			}
		})
	}
}

func TestAServerIsPausedWithoutDockerIfItsProcessIsOfThisMachine(t *testing.T) {
	n := redistest.Start(t, 1)[0]
	for name, end := range map[string]func(*redistest.Node, testing.TB){
		"resumed": (*redistest.Node).Unpause, "restarted": (*redistest.Node).Restart, "killed": (*redistest.Node).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			n.Pause(t)
			if !n.Frozen() {
				t.Skipf("%s: Docker pauses", runtime.GOOS)
			}
			end(n, t)
			assert.False(t, n.Frozen())
			if name == "killed" {
				n.Restart(t)
			}
			assert.Equal(t, "PONG", n.Do(t, "PING"))
		})
	}
}

// The engine may take longer than a late node, which must not have executed a command yet.
func TestAServerIsKilledWithoutTheEngineIfItsProcessIsOfThisMachine(t *testing.T) {
	n := redistest.Start(t, 1)[0]
	n.Pause(t)
	if !n.Frozen() {
		t.Skipf("%s: Docker kills", runtime.GOOS)
	}
	for range 2 { // paused, and as another process
		n.Kill(withoutEngine{t})
		_, err := n.Try("PING")
		require.Error(t, err)
		n.Restart(t)
		assert.Equal(t, "PONG", n.Do(t, "PING"))
	}
}

// withoutEngine is a test that the engine does nothing for.
type withoutEngine struct{ testing.TB }

func (withoutEngine) Context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestAServerThatDoesNotAnswerIsAFailureOfTheMachine(t *testing.T) {
	said := failureOf(t, func(t testing.TB) { redistest.Start(hasty{t}, 1, "--port", "7000") })
	assert.Contains(t, said, "the machine failed (Docker), and not the library: ")
}

// hasty is a test that ends soon.
type hasty struct{ testing.TB }

func (h hasty) Context() context.Context {
	ctx, cancel := context.WithTimeout(h.TB.Context(), 5*time.Second)
	h.Cleanup(cancel)
	return ctx
}

// While a node is dead its port is free, and no other test process may be given it.
func TestThePortOfADeadNodeIsGivenToNoOtherProcess(t *testing.T) {
	var addr string
	t.Run("reserved", func(t *testing.T) {
		n := redistest.Start(t, 1)[0]
		addr = n.Addr()
		n.Kill(t)
		_, err := net.ListenPacket("udp", addr)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	})
	_, err := net.ListenPacket("udp", addr)
	require.ErrorIs(t, err, syscall.EADDRINUSE, "a replica or a Sentinel that knew the server may still dial it")
}
