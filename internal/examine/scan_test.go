package examine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
)

// scanned returns the keys that a scan passes, in order.
func scanned(ctx context.Context, n *pool.Node, pattern string) (all []string, err error) {
	err = Keys(ctx, n, pattern, func(keys []string) error {
		all = append(all, keys...)
		return nil
	})
	slices.Sort(all)
	return all, err
}

func TestAScanPassesTheKeysThatMatch(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		for _, key := range []string{"app/a", "app/b", "b"} {
			m.Set(key, "x", time.Minute)
		}
		all, err := scanned(t.Context(), n, "app/*")
		require.NoError(t, err)
		require.Equal(t, []string{"app/a", "app/b"}, all)
		stop := errors.New("enough")
		require.ErrorIs(t, Keys(t.Context(), n, "*", func([]string) error { return stop }), stop)
	})
}

func TestAScanFollowsTheCursorThroughEmptyPages(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		replies := []string{"*2\r\n$1\r\n7\r\n*0\r\n", "*2\r\n$1\r\n9\r\n*1\r\n$1\r\na\r\n", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n"}
		var cursors []string
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if cmd != "SCAN" {
				return "", false
			}
			cursors = append(cursors, args[0])
			return replies[len(cursors)-1], true
		})
		all, err := scanned(t.Context(), n, "*")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, all)
		require.Equal(t, []string{"0", "7", "9"}, cursors)
	})
}

func TestAScanEndsWithItsContextTheNodeOrASilentServer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.Freeze()
		_, err := scanned(t.Context(), n, "*")
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "a fault of a node is no deadline of the caller")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = scanned(ctx, n, "*")
		require.Error(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := scanned(t.Context(), n, "*")
			ended <- err
		}()
		require.NoError(t, n.Close())
		require.Error(t, <-ended)
		_, err = scanned(t.Context(), n, "*")
		require.ErrorIs(t, err, pool.ErrClosed)
	})
}

func TestAScanThatIsDeniedNamesTheRight(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.Deny("SCAN")
		_, err := scanned(t.Context(), n, "*")
		require.ErrorContains(t, err, "scanning the keys: NOPERM")
		require.ErrorContains(t, err, "'scan'")
		m.Deny()
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) { return "+OK\r\n", cmd == "SCAN" })
		_, err = scanned(t.Context(), n, "*")
		require.ErrorContains(t, err, errUnexpected.Error())
	})
}

func TestAScanOfAClusterReachesEveryMaster(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		var want []string
		for i, m := range cl.Masters {
			key := string(rune('a' + i))
			m.Set(key, "x", time.Minute)
			want = append(want, key)
		}
		all, err := scanned(t.Context(), n, "*")
		require.NoError(t, err)
		require.Equal(t, want, all)
		cl.Masters[0].Stop()
		_, err = scanned(t.Context(), n, "*")
		require.ErrorContains(t, err, cl.Masters[0].Addr())
	})
}
