package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A server that is busy, loading or short of replicas still has the keys that the undo should
// delete.
func TestAnUndoThatTheServerWouldNotExecuteIsMadeGoodUntilItsKeysAreDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := fakeredis.New("n1"), clock.Runtime()
		defer m.Close()
		n, err := Open(Config{Name: "n1", Address: m.Addr(), Dial: m.Dial, Clock: c})
		require.NoError(t, err)
		defer n.Close()
		synctest.Wait()
		undo := func(token string) {
			terms := &command.LockArgs{}
			terms.Set([]string{"a"}, token)
			r := &command.Request{NotAfter: c.Now().Add(10 * time.Second)}
			command.NewRelease(r, terms)
			require.NoError(t, voterOf(n).Submit(&command.Command{Request: r}, nil))
		}
		m.Set("a", "token", time.Minute)
		m.FailWith("EVALSHA", "BUSY Redis is busy running a script.")
		undo("token")
		time.Sleep(3 * time.Second)
		_, there := m.Get("a")
		require.True(t, there)
		m.FailWith("EVALSHA", "")
		time.Sleep(2 * maxRetryDelay)
		_, there = m.Get("a")
		require.False(t, there)

		m.FailWith("EVALSHA", "BUSY Redis is busy running a script.")
		undo("other")
		time.Sleep(11 * time.Second)
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.Zero(t, m.Commands()["EVALSHA"], "nothing is repeated once the keys have died")
	})
}

// If the undo were repeated, its caller would wait until the keys expire.
func TestAnUndoThatTheUserMayNotDoIsNotRepeated(t *testing.T) {
	for _, says := range []string{
		"NOPERM User app has no permissions to run the 'evalsha' command",
		"ERR The user executing the script can't run this command",
		"ERR Error running script (call to f_a98a): @user_script:5: @user_script: 5: The user executing the script can't run this command or subcommand",
		"ERR ACL failure in script: User app has no permissions to run the 'del' command",
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.FailWith("EVALSHA", says)
			c := newCall(func(r *command.Request) {
				terms := &command.LockArgs{}
				terms.Set([]string{"a"}, "token")
				command.NewRelease(r, terms)
			}).Within(n, time.Minute).On(n)
			require.Equal(t, command.Failed, c.Reply(t).Outcome)
			m.ForgetLog()
			time.Sleep(time.Minute)
			require.Zero(t, m.Commands()["EVALSHA"])
		})
	}
}
