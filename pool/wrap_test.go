package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// servicePool is a pool as services have it, with a read timeout and a name.
func servicePool(m *fakeredis.Master) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 1, MaxActive: 1, IdleTimeout: time.Minute,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := m.Dial(ctx, "", "")
			if err != nil {
				return nil, err
			}
			c := redis.NewConn(conn, time.Second, time.Second)
			if _, err := c.Do("CLIENT", "SETNAME", "the-service"); err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return c, nil
		},
	}
}

func wrapping(t *testing.T, p func(m *fakeredis.Master) *redis.Pool, f func(t *testing.T, m *fakeredis.Master, p *redis.Pool, n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		service := p(m)
		defer service.Close()
		n, err := Wrap(service, Config{Name: "wrapped", Clock: clock.Runtime(), DialTimeout: time.Second})
		require.NoError(t, err)
		defer n.Close()
		f(t, m, service, n)
	})
}

func TestAWrappedPoolsNodeServesAsAnyOther(t *testing.T) {
	wrapping(t, servicePool, func(t *testing.T, m *fakeredis.Master, _ *redis.Pool, n *Node) {
		require.Equal(t, "wrapped", n.Name())
		require.Equal(t, "wrapped", n.String())
		var calls []*call
		for range 200 {
			calls = append(calls, acquiring("A", longTTL, "k").On(n), releasing("A", "k").On(n))
		}
		for _, c := range calls {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		require.Positive(t, n.Stats().Writes)

		// The pool's read timeout of 1 s is for its own commands.
		time.Sleep(time.Hour)
		m.Freeze()
		c := acquiring("A", longTTL, "k").On(n)
		time.Sleep(4 * time.Second)
		m.Unfreeze()
		require.Equal(t, command.Granted, c.Reply(t).Outcome)
		require.Equal(t, int64(1), n.Stats().Dials)

		// The connection is redialled and the old one is killed, as with any other node.
		only(t, m).HoldRequests()
		orphan := acquiring("B", longTTL, "l").On(n)
		undo := releasing("B", "l").Within(n, longTTL).On(n)
		require.Equal(t, command.Unknown, orphan.Reply(t).Outcome)
		require.Equal(t, command.Unknown, undo.Reply(t).Outcome, "it was written twice")
		require.Equal(t, 1, count(m, "CLIENT KILL"))
	})
}

// docs/dev/hazards.md H76, H78: locks neither wait for the service's connections nor use one that
// the service left in some state.
func TestAWrappedPoolIsNotTouched(t *testing.T) {
	wrapping(t, servicePool, func(t *testing.T, m *fakeredis.Master, p *redis.Pool, n *Node) {
		service := p.Get() // the one connection that the pool allows
		defer service.Close()
		for _, state := range []string{"SELECT 5", "MULTI"} {
			name, args := state, []any(nil)
			if state == "SELECT 5" {
				name, args = "SELECT", []any{5}
			}
			_, err := service.Do(name, args...)
			require.NoError(t, err)
		}
		require.Equal(t, 1, p.ActiveCount())
		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		require.Equal(t, []string{"k"}, m.Keys(), "in database 0")
		require.Equal(t, 1, p.ActiveCount())
		require.Equal(t, 2, m.Connections())

		require.NoError(t, n.Close())
		_, err := service.Do("SET", "mine", "1")
		require.NoError(t, err, "its connection is left alone")
		_, err = service.Do("EXEC")
		require.NoError(t, err)
		require.NoError(t, service.Close())
		c := p.Get()
		defer c.Close()
		_, err = c.Do("PING")
		require.NoError(t, err, "and the pool is open")
	})
}

// docs/dev/hazards.md H39: only the pool's dial knows its database. With the wrong one a lock would
// exclude no other client.
func TestAWrappedPoolsDatabaseHasToBeSaid(t *testing.T) {
	onDatabase2 := func(m *fakeredis.Master) *redis.Pool {
		return &redis.Pool{Dial: func() (redis.Conn, error) {
			conn, err := m.Dial(context.Background(), "", "")
			if err != nil {
				return nil, err
			}
			c := redis.NewConn(conn, 0, 0)
			_, err = c.Do("SELECT", 2)
			return c, err
		}}
	}
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		silent, err := Wrap(onDatabase2(m), Config{Name: "n1", Clock: clock.Runtime()})
		require.NoError(t, err)
		defer silent.Close()
		requireUnfit(t, pinging().On(silent).Reply(t), "n1 is used on database 2", "WithDatabase")
		n, err := Wrap(onDatabase2(m), Config{Name: "n1", Clock: clock.Runtime(), Database: 2})
		require.NoError(t, err)
		defer n.Close()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}

func TestAPoolThatCantBeDialledIsRefused(t *testing.T) {
	_, err := Wrap(&redis.Pool{}, Config{Name: "n"})
	require.EqualError(t, err, `pool: Wrap("n"): the pool has neither DialContext nor Dial`)
	_, err = Wrap(nil, Config{Name: "n"})
	require.EqualError(t, err, `pool: Wrap("n"): the pool is nil`)
	_, err = Wrap(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("x") }}, Config{Name: ""})
	require.EqualError(t, err, "pool: Wrap needs a name for the node")
	_, err = Wrap(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("x") }}, Config{Name: "n", DialTimeout: -1})
	require.ErrorContains(t, err, "DialTimeout is -1ns")
}

func TestAWrappedPoolsDialErrorIsReported(t *testing.T) {
	for name, p := range map[string]*redis.Pool{
		"an error":        {DialContext: func(context.Context) (redis.Conn, error) { return nil, errors.New("no route to the moon") }},
		"its own timeout": {Dial: func() (redis.Conn, error) { return nil, context.DeadlineExceeded }},
		"nothing":         {Dial: func() (redis.Conn, error) { return nil, nil }}, //nolint:nilnil // what must not be
	} {
		wrapping(t, func(*fakeredis.Master) *redis.Pool { return p }, func(t *testing.T, _ *fakeredis.Master, _ *redis.Pool, n *Node) {
			r := acquiring("A", longTTL, "k").On(n).Reply(t)
			requireUnsent(t, r)
			require.ErrorContains(t, r.Err, map[string]string{
				"an error": "no route to the moon", "its own timeout": "deadline exceeded", "nothing": "neither a connection nor an error",
			}[name])
		})
	}
}

// docs/dev/hazards.md H73: a Dial without a context cannot be cancelled. It is counted, bounded and
// blocks no caller. A connection that it returns too late is closed.
func TestHangingDialsAreCountedAndBounded(t *testing.T) {
	let := make(chan struct{})
	closed := 0
	var mu sync.Mutex
	synctest.Test(t, func(t *testing.T) {
		let = make(chan struct{})
		m := fakeredis.New("n1")
		defer m.Close()
		service := servicePool(m)
		dial := service.DialContext
		service.DialContext, service.Dial = nil, func() (redis.Conn, error) {
			<-let
			c, err := dial(context.Background())
			return &counted{Conn: c, closed: func() {
				mu.Lock()
				defer mu.Unlock()
				closed++
			}}, err
		}
		n, err := Wrap(service, Config{Name: "n", Clock: clock.Runtime(), DialTimeout: time.Second})
		require.NoError(t, err)
		began := time.Now()
		r := acquiring("A", longTTL, "k").On(n).Reply(t)
		requireUnsent(t, r)
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorContains(t, r.Err, "the wrapped pool's dial did not return in time")
		require.Equal(t, int64(1), n.Stats().HangingDials)

		time.Sleep(time.Hour)
		require.Equal(t, int64(8), n.Stats().HangingDials)
		require.ErrorContains(t, acquiring("A", longTTL, "k").On(n).Reply(t).Err, "8 dials of the wrapped pool are hanging")

		began = time.Now()
		require.NoError(t, n.Close())
		require.Zero(t, time.Since(began))
		close(let)
		synctest.Wait()
		require.Zero(t, n.Stats().HangingDials)
		require.Equal(t, 8, closed)
		require.Zero(t, m.Connections())
	})
}

// The node recovers when the dials return.
func TestANodeRecoversFromHangingDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		m.Freeze()
		service := servicePool(m)
		dial := service.DialContext
		service.DialContext = func(ctx context.Context) (redis.Conn, error) { return dial(context.WithoutCancel(ctx)) }
		n, err := Wrap(service, Config{Name: "n", Clock: clock.Runtime(), DialTimeout: 10 * time.Millisecond})
		require.NoError(t, err)
		defer n.Close()
		time.Sleep(100 * time.Millisecond)
		require.Positive(t, n.Stats().HangingDials)
		m.Unfreeze()
		time.Sleep(10 * time.Second)
		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		require.Zero(t, n.Stats().HangingDials)
		require.Equal(t, 1, m.Connections())
	})
}

type counted struct {
	redis.Conn
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (c *counted) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c *counted) DoWithTimeout(d time.Duration, name string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, name, args...)
}

// A connection that cannot be read without its own timeout is unusable.
func TestAConnectionWithoutTimeoutsIsAFailedDial(t *testing.T) {
	wrapping(t, func(m *fakeredis.Master) *redis.Pool {
		p := servicePool(m)
		dial := p.DialContext
		p.DialContext = func(ctx context.Context) (redis.Conn, error) {
			c, err := dial(ctx)
			return struct{ redis.Conn }{c}, err
		}
		return p
	}, func(t *testing.T, m *fakeredis.Master, _ *redis.Pool, n *Node) {
		r := acquiring("A", longTTL, "k").On(n).Reply(t)
		requireUnsent(t, r)
		require.ErrorContains(t, r.Err, "does not support ConnWithTimeout")
		synctest.Wait()
		require.Zero(t, m.Connections())
	})
}

func TestAWrappedPoolHasTheSettingsOfItsConfig(t *testing.T) {
	p := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("x") }}
	cfg, err := wrapConfig(p, Config{Name: "n", Database: 3, DialTimeout: 3 * time.Second, HardTimeout: 7 * time.Second, Proxied: true})
	require.NoError(t, err)
	require.Equal(t, "n", cfg.Name)
	require.Equal(t, 3, cfg.Database)
	require.Equal(t, 3*time.Second, cfg.DialTimeout)
	require.Equal(t, 7*time.Second, cfg.HardTimeout)
	require.True(t, cfg.Proxied)
}

func TestTheConfigOfAWrappedPoolDoesNotSayHowToDial(t *testing.T) {
	p := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("x") }}
	for what, cfg := range map[string]Config{
		"network":     {Network: "unix"},
		"address":     {Address: "h:1"},
		"user":        {Username: "u"},
		"password":    {Password: "hunter2"},
		"credentials": {Credentials: func(context.Context) (string, string, error) { return "", "", nil }},
		"TLS":         {TLS: func(context.Context) (*tls.Config, error) { return nil, nil }},
		"dial":        {Dial: dialNothing},
		"Sentinels":   {Kind: &sentinel.Config{}},
		"Cluster":     {Kind: &cluster.Config{Addresses: []string{"h:1"}}},
	} {
		cfg.Name = "n"
		_, err := Wrap(p, cfg)
		require.EqualError(t, err, `pool: Wrap("n"): the wrapped pool dials, so the Config must not say how`, what)
	}
}

// eager is a connection whose Send sends at once, and which keeps the arguments.
type eager struct {
	redis.ConnWithTimeout
	kept *[][]any
}

func (c eager) Send(name string, args ...any) error {
	*c.kept = append(*c.kept, args)
	err := errors.Join(c.ConnWithTimeout.Send(name, args...), c.Flush())
	synctest.Wait() // the reader has the reply
	return err
}

func TestAServicesConnectionMaySendAtOnceAndKeepTheArguments(t *testing.T) {
	var kept [][]any
	sending := func(m *fakeredis.Master) *redis.Pool {
		p := servicePool(m)
		dial := p.DialContext
		p.DialContext = func(ctx context.Context) (redis.Conn, error) {
			c, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return eager{c.(redis.ConnWithTimeout), &kept}, nil
		}
		return p
	}
	wrapping(t, sending, func(t *testing.T, _ *fakeredis.Master, _ *redis.Pool, n *Node) {
		var calls []*call
		for _, key := range []string{"a", "b", "c"} {
			calls = append(calls, acquiring("token of "+key, longTTL, key).On(n))
		}
		for _, c := range calls {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		require.Zero(t, n.Stats().Violations)
		last := kept[len(kept)-3:]
		require.Equal(t, []any{"a", "b", "c"}, []any{last[0][0], last[1][0], last[2][0]})
	})
}
