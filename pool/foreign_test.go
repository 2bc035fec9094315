package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/pipenet"
	"github.com/quorumlock/go-redlock/internal/session"
)

// planted sets a terminal's colour, reverses the direction of its text, and is long.
var planted = "\x1b[31m\u202e" + strings.Repeat("z", 10<<10)

// requireShowable fails if a text contains control characters, or is too long.
func requireShowable(t *testing.T, what, text string) {
	t.Helper()
	require.NotContains(t, text, strings.Repeat("z", 520), what)
	for _, r := range text {
		require.True(t, unicode.IsPrint(r), "%s: %q in %q", what, r, text)
	}
}

func TestWhatAServerSaysOfItselfIsPrintable(t *testing.T) {
	for _, fields := range [][]string{{"redis_version", "maxmemory_policy"}, {"role"}, {"redis_mode"}, {"run_id", "master_replid2"}} {
		onMaster(t, func(m *fakeredis.Master) {
			for _, f := range fields {
				m.SetInfo(f, planted)
			}
			m.SetInfo("maxmemory", "1")
		}, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			if r := pinging().On(n).Reply(t); r.Err != nil {
				requireShowable(t, "a vote", r.Err.Error())
			}
		})
	}
}

func TestWhatAServerRefusesIsPrintable(t *testing.T) {
	onMaster(t, func(m *fakeredis.Master) {
		m.FailWith("INFO", "ERR "+planted)
		m.FailWith("GET", "ERR "+planted)
	}, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		text := pinging().On(n).Reply(t).Err.Error()
		require.Contains(t, text, `\x1b[31m\u202ez`)
		requireShowable(t, "a refusal", text)
	})
}

func TestAGuardMismatchBeginsWithTheRemedyAndShowsNoMarker(t *testing.T) {
	ours := guard.New(time.Minute, []string{"n"})
	theirs := guard.New(2*time.Minute, []string{"n", "m"}).Marker("run-of-the-server", "0", "n")
	for text, err := range map[string]error{
		"pool: use WithRestartGuard (redlock --guard) with a maxTTL of 2m0s, or name the node in WithUnsafeNodes": session.GuardedNode("n", theirs),
		"pool: use WithRestartGuard (redlock --guard), or name the node in WithUnsafeNodes":                       session.GuardedNode("n", planted),
		"pool: give all clients the same settings: n is guarded by clients with other ones (maxTTL is 2m0s there and 1m0s here; " +
			"the list of the nodes' names is another one)": session.ForeignMarker("n", theirs, ours),
		"pool: stop all clients, wait for the longest TTL, and delete n's key redlock:guard": session.ForeignMarker("n", planted, ours),
	} {
		require.True(t, strings.HasPrefix(err.Error(), text), err)
		require.ErrorIs(t, err, command.ErrGuardMismatch)
		require.ErrorIs(t, err, command.ErrUnfit)
		require.NotContains(t, err.Error(), "run-of-the-server")
		require.NotContains(t, err.Error(), "[31m")
		requireShowable(t, "a marker", err.Error())
	}
}

// The error of a dial may have words of a server: from its certificate, or in the answer to the
// AUTH of a wrapped pool.
func TestTheErrorOfADialIsPrintable(t *testing.T) {
	failing := errors.New(planted + "\n")
	for what, open := range map[string]func(c Config) (*Node, error){
		"Dial": func(c Config) (*Node, error) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, failing }
			return Open(c)
		},
		"Credentials": func(c Config) (*Node, error) {
			c.Credentials = func(context.Context) (string, string, error) { return "", "", failing }
			return Open(c)
		},
		"TLS": func(c Config) (*Node, error) {
			c.TLS = func(context.Context) (*tls.Config, error) { return nil, failing }
			return Open(c)
		},
		"Wrap": func(c Config) (*Node, error) {
			dial := func() (redis.Conn, error) { return nil, failing }
			return Wrap(&redis.Pool{Dial: dial}, Config{Name: "n", Clock: c.Clock, Logger: c.Logger})
		},
		"AUTH of Wrap": func(c Config) (*Node, error) {
			dial := func() (redis.Conn, error) {
				return nil, fmt.Errorf("dialling: %w", redis.Error("ERR not 'hunter2'"+planted))
			}
			return Wrap(&redis.Pool{Dial: dial}, Config{Name: "n", Clock: c.Clock, Logger: c.Logger})
		},
	} {
		var log strings.Builder
		synctest.Test(t, func(t *testing.T) {
			client, server := pipenet.Pipe("client", "server")
			defer server.Close()
			n, err := open(Config{
				Name: "n", Address: "h:1", Clock: clock.Runtime(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Dial: func(context.Context, string, string) (net.Conn, error) { return client, nil },
			})
			require.NoError(t, err)
			text := pinging().On(n).Reply(t).Err.Error()
			synctest.Wait()
			require.NoError(t, n.Close())
			requireShowable(t, what, text)
			require.NotContains(t, text, "hunter2", what)
		})
		require.Contains(t, log.String(), "dial failed", what)
		requireShowable(t, what, strings.ReplaceAll(log.String(), "\n", ""))
		require.NotContains(t, log.String(), "hunter2", what)
	}
}
