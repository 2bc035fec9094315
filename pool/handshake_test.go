package pool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/pipenet"
)

func TestTheHandshakeAuthenticatesBeforeAnythingElse(t *testing.T) {
	onMaster(t, func(m *fakeredis.Master) { m.RequireAuth("u", "hunter2") }, func(c *Config) {
		c.Username, c.Password, c.Database, c.ClientName = "u", "hunter2", 3, "billing"
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		said := []string{"AUTH", "SELECT", "CLIENT SETNAME", "CLIENT INFO", "INFO", "GET"}
		require.Equal(t, said, allNames(m))
		require.Equal(t, []string{"u", "hunter2"}, m.Log()[0].Args)

		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		require.Empty(t, m.Keys(), "not in database 0")
		c := raw(t, m)
		defer c.Close()
		_, err := c.Do("AUTH", "u", "hunter2")
		require.NoError(t, err)
		_, err = c.Do("SELECT", 3)
		require.NoError(t, err)
		v, err := redis.String(c.Do("GET", "k"))
		require.NoError(t, err)
		require.Equal(t, "A", v)
		list, err := redis.String(c.Do("CLIENT", "LIST"))
		require.NoError(t, err)
		require.Contains(t, list, "name=billing ")
		require.Zero(t, count(m, "EVAL"), "the scripts are loaded already")
	})
}

// A first lock takes one round trip more than another one: nothing that writes a key is sent before the checks are
// answered.
func TestAFirstLockTakesTwoRoundTrips(t *testing.T) {
	var writes atomic.Int64
	inBubble(t, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return countedConn{conn, &writes}, err
		}
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		require.Equal(t, []string{"CLIENT SETNAME", "CLIENT INFO", "INFO", "GET", "SET"}, allNames(m))
		require.EqualValues(t, 2, writes.Load())
		m.ForgetLog()
		require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n))
		require.Equal(t, []string{"SCRIPT LOAD", "EVALSHA release"}, allNames(m))
		require.EqualValues(t, 3, writes.Load())
	})
}

// countedConn counts the writes to it.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestAPasswordAloneIsTheDefaultUsersAndNoneMeansNoAUTH(t *testing.T) {
	password := func(m *fakeredis.Master) { m.RequireAuth("default", "hunter2") }
	onMaster(t, password, func(c *Config) { c.Password = "hunter2" }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.Equal(t, []string{"hunter2"}, m.Log()[0].Args)
	})
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.Zero(t, count(m, "AUTH"))
		require.Zero(t, count(m, "SELECT"))
	})
}

// Rule 6: a command that is refused is not needed, except for INFO where nodes are checked
// (fitness_test.go). What the rights to CLIENT INFO and INFO are for, undo_test.go shows.
func TestARightThatIsMissingDoesNotKeepANodeFromVoting(t *testing.T) {
	for _, denied := range [][]string{
		{"CLIENT SETNAME"},
		{"CLIENT INFO"},
		{"INFO"},
		{"CLIENT"},
		{"SCRIPT"},
		{"SCRIPT LOAD", "CLIENT", "INFO"},
	} {
		onMaster(t, func(m *fakeredis.Master) { m.Deny(denied...) }, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			except(n, true)
			require.Equal(t, command.Granted, acquiring("A", longTTL, "k", "l").Outcome(t, n), denied)
			require.Equal(t, command.Granted, releasing("A", "k", "l").Outcome(t, n), denied)
			if denied[0] == "SCRIPT" {
				require.Equal(t, 1, count(m, "EVAL acquire"), "the text comes along")
			}
			require.Zero(t, n.Stats().DialFailures, denied)
			require.Equal(t, 1, n.Stats().Connected)
		})
	}
}

func TestAServerThatCantVoteCountsAsAFailedDial(t *testing.T) {
	for state, cmd := range map[string]string{
		"LOADING Redis is loading the dataset in memory":    "*",
		"NOAUTH Authentication required.":                   "*",
		"MASTERDOWN Link with MASTER is down and replica-…": "*",
		"LOADING only for INFO":                             "INFO",
		"LOADING only for CLIENT INFO":                      "CLIENT INFO",
		"BUSY Redis is busy running a script.":              "*",
	} {
		inGatedBubble(t, func(t *testing.T, m *fakeredis.Master, n *Node, gate chan<- error) {
			m.FailWith(cmd, state)
			waiting := acquiring("A", longTTL, "k").On(n)
			gate <- nil
			r := waiting.Reply(t)
			requireUnsent(t, r)
			require.ErrorContains(t, r.Err, state)
			var se *ServerError
			require.ErrorAs(t, r.Err, &se)
			require.Equal(t, int64(1), n.Stats().DialFailures)
			require.Zero(t, n.Stats().Connected)
			requireUnsent(t, acquiring("A", longTTL, "k").On(n).Reply(t))
			synctest.Wait()
			require.Zero(t, m.Connections(), "the connection is closed")

			m.FailWith(cmd, "")
			gate <- nil
			synctest.Wait()
			require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		})
	}
}

func TestAStateThatDoesNotConcernTheHandshakeIsNoFailedDial(t *testing.T) {
	for _, state := range []string{
		"READONLY You can't write against a read only replica.",
		"MISCONF Errors writing to the AOF file", "ERR unknown subcommand 'ID'.",
	} {
		inGatedBubble(t, func(t *testing.T, m *fakeredis.Master, n *Node, gate chan<- error) {
			m.FailWith("*", state)
			gate <- nil
			synctest.Wait()
			require.Equal(t, 1, n.Stats().Connected, state)
			requireUnfit(t, pinging().On(n).Reply(t), state)
			m.FailWith("*", "")
			time.Sleep(unhealthyEvery) // it is checked again, and then redialled
			gate <- nil
			require.Equal(t, command.Granted, acquiring("A", longTTL, "k", "l").Outcome(t, n))
			require.Zero(t, n.Stats().DialFailures)
		})
	}
}

func TestTheCredentialsAreReadAtEveryDial(t *testing.T) {
	password := "one"
	asked := 0
	onMaster(t, func(m *fakeredis.Master) { m.RequireAuth("u", "one") }, func(c *Config) {
		c.Username, c.Password = "unused", "unused"
		c.Credentials = func(context.Context) (string, string, error) {
			asked++
			if password == "" {
				return "", "", errors.New("the vault is closed")
			}
			return "u", password, nil
		}
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.Equal(t, 1, asked)

		m.RequireAuth("u", "two")
		password = "two"
		only(t, m).Drop()
		synctest.Wait()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.Equal(t, 2, asked)

		password = ""
		only(t, m).Drop()
		synctest.Wait()
		r := pinging().On(n).Reply(t)
		requireUnsent(t, r)
		require.ErrorContains(t, r.Err, "credentials: the vault is closed")
		synctest.Wait()
		require.Zero(t, m.Connections(), "the connection is closed")
	})
}

// No error shows the password, even if a server without AUTH repeats its arguments.
func TestNoErrorShowsAPassword(t *testing.T) {
	const usual, short, odd, long = "hunter2", "pw1", "a\x1bbc", "p4p4p4p4"
	const withheld = " (the server's text is not shown"
	for _, c := range []struct{ password, reply, want string }{
		{usual, "WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS invalid username"},
		{usual, "ERR unknown command 'AUTH', with args beginning with: 'u' 'hunter2' ", "ERR unknown command 'AUTH'"},
		{usual, "ERR unknown command `AUTH`, with args beginning with: `u`, `hunter2`, ", "ERR unknown command `AUTH`"},
		{usual, "ERR AUTH <password> called without any password configured", "without any password configured"},
		{usual, "NOPERM User u has no permissions to run the 'auth' command, said the password", "NOPERM"},
		{usual, "WRONGPASS not hunter2, nor 'hunter2'", "WRONGPASS" + withheld},
		{usual, "hunter2", withheld},
		{"WRONGPASS", "WRONGPASS no", "ERR" + withheld},
		{short, "WRONGPASS pw1", "WRONGPASS" + withheld},
		{odd, "ERR it was " + odd, "ERR" + withheld},
		{strings.Repeat(long, 100), "ERR it was " + strings.Repeat(long, 100), "ERR" + withheld},
	} {
		var log bytes.Buffer
		onMaster(t, func(m *fakeredis.Master) { m.FailWith("AUTH", c.reply) }, func(cfg *Config) {
			cfg.Username, cfg.Password = "u", c.password
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			r := pinging().On(n).Reply(t)
			requireUnsent(t, r)
			require.ErrorContains(t, r.Err, c.want)
			require.ErrorContains(t, r.Err, "pool: AUTH: ")
			require.NotContains(t, r.Err.Error(), "with args")
			for _, shown := range []string{r.Err.Error(), n.String()} {
				require.NotContains(t, shown, c.password)
				require.NotContains(t, shown, long)
			}
			synctest.Wait() // the error is logged, unless the node is closed before
		})
		require.Contains(t, log.String(), "dial failed")
		require.NotContains(t, log.String(), c.password)
		require.NotContains(t, log.String(), long)
	}
}

// A line-based service takes each line of a command for a command, so it answers AUTH's arguments
// later.
func TestNoAnswerBehindAUTHShowsThePassword(t *testing.T) {
	const password = "hunter2"
	onMaster(t, func(m *fakeredis.Master) {
		m.RequireAuth("default", password)
		m.FailWith("SELECT", "ERR what is "+password)
	}, func(c *Config) { c.Password, c.Database = password, 1 }, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		r := pinging().On(n).Reply(t)
		require.ErrorContains(t, r.Err, "the server's text is not shown")
		require.NotContains(t, r.Err.Error(), password)
	})
}

// A server may repeat what it was sent in its answer to any later command.
func TestNoAnswerOnAConnectionShowsItsPassword(t *testing.T) {
	const password, says = "hunter2", "ERR you said AUTH hunter2"
	for cmd, ask := range map[string]func(t *testing.T, n *Node) string{
		"PING": func(t *testing.T, n *Node) string { return pinging().On(n).Reply(t).Err.Error() },
		"SET": func(t *testing.T, n *Node) string {
			return acquiring(command.NewToken(""), time.Second, "k").On(n).Reply(t).Err.Error()
		},
		"EVALSHA": func(t *testing.T, n *Node) string { // of two merged acquires
			inLocker(n)
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			synctest.Wait()
			a, b := fencing("A", time.Second, "a"), fencing("B", time.Second, "b")
			together(n, a, b)
			shown := a.Reply(t).Err.Error() + b.Reply(t).Err.Error()
			require.Equal(t, int64(2), n.Stats().Unmerged)
			return shown
		},
		"INFO": func(t *testing.T, n *Node) string { return pinging().On(n).Reply(t).Err.Error() },
		"SUBSCRIBE": func(_ *testing.T, n *Node) string {
			ended := make(downs, 10)
			s := voterOf(n).Subscribe(ended)
			defer s.Close()
			s.Add("c")
			return (<-ended).Error()
		},
	} {
		t.Run(cmd, func(t *testing.T) {
			onMaster(t, func(m *fakeredis.Master) {
				m.RequireAuth("default", password)
				m.FailWith(cmd, says)
			}, func(c *Config) { c.Password = password }, func(t *testing.T, _ *fakeredis.Master, n *Node) {
				shown := ask(t, n)
				require.Contains(t, shown, "the server's text is not shown")
				require.NotContains(t, shown, password)
			})
		})
	}
	status := func(_ int64, cmd string, _ []string) (string, bool) {
		return "+you said AUTH " + password + "\r\n", cmd == "PING"
	}
	onMaster(t, func(m *fakeredis.Master) {
		m.RequireAuth("default", password)
		m.Hook(status)
	}, func(c *Config) { c.Password = password }, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		shown := pinging().On(n).Reply(t).Err.Error()
		require.Contains(t, shown, "you said AUTH")
		require.NotContains(t, shown, password, "a status")
	})
}

func TestADatabaseThatCantBeSelectedIsAFailedDial(t *testing.T) {
	outOfRange := func(m *fakeredis.Master) { m.FailWith("SELECT", "ERR DB index is out of range") }
	onMaster(t, outOfRange, func(c *Config) { c.Database = 99 }, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		require.ErrorContains(t, pinging().On(n).Reply(t).Err, "pool: SELECT: ERR DB index is out of range")
	})
}

// docs/dev/hazards.md H47: the error has what a server sends before it closes the connection, not
// only EOF.
func TestAnErrorBeforeTheServerClosesIsReported(t *testing.T) {
	for _, words := range []string{"ERR max number of clients reached", "DENIED Redis is running in protected mode"} {
		synctest.Test(t, func(t *testing.T) {
			n, err := Open(Config{Name: "n", Address: "n", Clock: clock.Runtime(), Dial: func(context.Context, string, string) (net.Conn, error) {
				client, server := pipenet.Pipe("client", "server")
				go func() {
					go io.Copy(io.Discard, server) //nolint:errcheck // until it is closed
					_, _ = io.WriteString(server, "-"+words+"\r\n")
					_ = server.Close()
				}()
				return client, nil
			}})
			require.NoError(t, err)
			defer n.Close()
			requireServerError(t, n, words)
		})
	}
}

// requireServerError requires that a command is not sent, and that its error has the server's words.
func requireServerError(t *testing.T, n *Node, words string) {
	t.Helper()
	r := pinging().On(n).Reply(t)
	requireUnsent(t, r)
	require.ErrorContains(t, r.Err, words)
	var se *ServerError
	require.ErrorAs(t, r.Err, &se)
}

// The server writes before it reads.
func TestAnErrorBeforeTheServerClosesASocketIsReported(t *testing.T) {
	const words = "ERR max number of clients reached"
	l := accepting(t, "tcp", "127.0.0.1:0", func(conn net.Conn) {
		_, _ = io.WriteString(conn, "-"+words+"\r\n")
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	})
	n, err := Open(unhurried(Config{Name: "n", Address: l.Addr().String()}))
	require.NoError(t, err)
	defer n.Close()
	requireServerError(t, n, words)
}

// The log has one line for each change of a connection.
func TestTheLogReportsConnections(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Stop()
		time.Sleep(time.Minute)
		require.NoError(t, m.Restart(false))
		time.Sleep(time.Second)
		m.Freeze()
		c := pinging().On(n)
		synctest.Wait()
		m.Stop()
		require.Equal(t, command.Unknown, c.Reply(t).Outcome)
		require.NoError(t, m.Restart(false))
		time.Sleep(time.Second)
	})
	require.Equal(t, 3, strings.Count(log.String(), `msg="redlock node: connected" node=n1`))
	require.Equal(t, 1, strings.Count(log.String(), `level=WARN msg="redlock node: dial failed" node=n1`), "120 dials failed")
	require.Equal(t, 2, strings.Count(log.String(), `level=INFO msg="redlock node: connection ended" node=n1`+"\n"), "it was idle, and Close")
	require.Equal(t, 1, strings.Count(log.String(), `level=WARN msg="redlock node: connection ended" node=n1 error=`), "a reply was due")
	require.True(t, strings.HasSuffix(log.String(), `level=INFO msg="redlock node: connection ended" node=n1`+"\n"), "a Close is nothing to warn of")

	log.Reset()
	inBubble(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Dial = (&gated{gate: make(chan error)}).Dial
	}, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		synctest.Wait()
		require.NoError(t, n.Close())
	})
	require.Empty(t, log.String(), "nor is a dial that Close ended")
}
