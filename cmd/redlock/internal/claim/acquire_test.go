//go:build unix && !aix && !solaris

package claim

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// handedOut hands a lock out to a standard output that is closed. It returns the status and the messages.
func handedOut(t *testing.T, fails bool, signals ...os.Signal) (int, string) {
	t.Helper()
	q := redlocktest.New(t, 3)
	locker := q.Locker(redlock.WithNodeTimeout(5 * time.Second)) // a busy machine answers late
	lock, err := locker.TryAcquire(t.Context(), "job", time.Minute)
	require.NoError(t, err)
	if fails {
		heldEverywhere(t, locker, "job") // on a node that never got the acquire the name is free
		q.LoseMajority()
	}
	in := make(cli.Signals, 1)
	for _, s := range signals {
		in <- s
	}
	path := filepath.Join(t.TempDir(), "messages")
	messages, err := os.Create(path)
	require.NoError(t, err)
	defer messages.Close()
	closed, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	c := &cli.Invocation{Stdout: &cli.Output{File: closed}, Stderr: messages}
	status := handOut(t.Context(), c, locker, lock, in)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return status, string(text)
}

// heldEverywhere waits until every node holds the name.
func heldEverywhere(t *testing.T, locker *redlock.Locker, name string) {
	t.Helper()
	isFree := func(n redlock.NodeStatus) bool { return !n.Held }
	for {
		s, err := locker.Inspect(t.Context(), name)
		require.NoError(t, err)
		if !slices.ContainsFunc(s.Nodes, isFree) {
			return
		}
	}
}

func TestALockWhoseReleaseFailedIsNotSaidToBeReleased(t *testing.T) {
	const expires = ", and the release failed, so the lock expires when --ttl has passed: "
	status, text := handedOut(t, false)
	require.Equal(t, cli.ExitSystem, status)
	require.Equal(t, "redlock: the claim could not be written, so the lock is released\n", text)
	status, text = handedOut(t, true)
	require.Equal(t, cli.ExitSystem, status)
	require.Contains(t, text, "redlock: the claim could not be written"+expires)

	status, text = handedOut(t, false, syscall.SIGTERM)
	require.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), status)
	require.Empty(t, text)
	status, text = handedOut(t, true, syscall.SIGTERM)
	require.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), status)
	require.Contains(t, text, "redlock: signal terminated ended the wait"+expires)
}
