package goredisnodes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/goredisnodes"
	"github.com/quorumlock/go-redlock/redlock"
)

// start starts masters that listen on 127.0.0.1.
func start(t *testing.T, n int) []*miniredis.Miniredis {
	t.Helper()
	masters := make([]*miniredis.Miniredis, n)
	for i := range masters {
		masters[i] = miniredis.RunT(t)
		info := fmt.Sprintf("role:master\r\nrun_id:%d\r\n", i+1) // miniredis does not report them
		masters[i].Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd != "INFO" {
				return false
			}
			c.WriteBulk(info)
			return true
		})
	}
	return masters
}

// clients makes a client of each master with these options.
func clients(t *testing.T, masters []*miniredis.Miniredis, with redis.Options) (list []redis.UniversalClient) {
	t.Helper()
	for _, m := range masters {
		options := with
		options.Addr = m.Addr()
		options.ReadTimeout, options.MaxRetries = time.Minute, -1 // on a busy machine a command would be executed twice
		c := redis.NewClient(&options)
		t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
		list = append(list, c)
	}
	return list
}

func newLocker(t *testing.T, clients ...redis.UniversalClient) (locker *redlock.Locker, closeAll func()) {
	t.Helper()
	nodes, err := goredisnodes.Open(clients...)
	require.NoError(t, err)
	locker, err = redlock.New(nodes, redlock.WithNodeTimeout(20*time.Second)) // the first attempt dials
	require.NoError(t, err)
	return locker, func() {
		t.Helper()
		assert.NoError(t, locker.Close(t.Context()))
		assert.NoError(t, nodes.Close(), "again")
	}
}

// await polls until is returns true.
func await(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, time.Minute, time.Millisecond)
}

func TestALockAndTheClientsSeeTheSameKeys(t *testing.T) {
	masters := start(t, 3)
	for _, m := range masters {
		m.RequireUserAuth("app", "secret")
	}
	all := clients(t, masters, redis.Options{Username: "app", Password: "secret", DB: 2})
	locker, closeAll := newLocker(t, all...)
	lock, err := locker.TryAcquire(t.Context(), "invoice/42", time.Minute)
	require.NoError(t, err)
	for _, c := range all { // an acquire returns with a quorum: the third node follows
		await(t, func() bool { return c.PTTL(t.Context(), "invoice/42").Val() > 0 })
	}
	require.NoError(t, lock.Extend(t.Context(), 10*time.Minute))
	for _, c := range all {
		await(t, func() bool { return c.PTTL(t.Context(), "invoice/42").Val() > time.Minute })
	}
	require.NoError(t, lock.Release(t.Context()))

	for _, c := range all {
		await(t, func() bool {
			return c.SetNX(t.Context(), "invoice/42", "held by a program on go-redis", time.Minute).Val()
		})
	}
	_, err = locker.TryAcquire(t.Context(), "invoice/42", time.Minute)
	require.ErrorIs(t, err, redlock.ErrHeld)
	closeAll()
	for _, c := range all {
		require.EqualValues(t, 1, c.Del(t.Context(), "invoice/42").Val(), "the client works after the nodes are closed")
	}
}

// The clients have connections to the same masters: the nodes use none of them.
func TestTheNodesHaveTheirOwnConnections(t *testing.T) {
	masters := start(t, 3)
	var dials atomic.Int64
	all := clients(t, masters, redis.Options{PoolSize: 1, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}})
	for _, c := range all {
		require.NoError(t, c.Close(), "a closed client is no obstacle")
	}
	locker, closeAll := newLocker(t, all...)
	defer closeAll()
	lock, err := locker.TryAcquire(t.Context(), "invoice/42", time.Minute)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
	require.GreaterOrEqual(t, dials.Load(), int64(2), "a quorum was dialled by the clients' Dialer")
}

func TestOpenRefusesTheSameServerTwice(t *testing.T) {
	server := func(addr string, db int) redis.UniversalClient {
		c := redis.NewClient(&redis.Options{Addr: addr, DB: db})
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		return c
	}
	member := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:7009", "127.0.0.1:7002"}})
	defer member.Close()
	_, err := goredisnodes.Open(server("127.0.0.1:7001", 0), server("127.0.0.1:7002", 0), server("127.0.0.1:7001", 1))
	require.EqualError(t, err, "goredisnodes: clients 1 and 3 lead to the same server: redis://127.0.0.1:7001/0 and redis://127.0.0.1:7001/1")
	_, err = goredisnodes.Open(server("127.0.0.1:7001", 0), server("127.0.0.1:7002", 0), member)
	require.EqualError(t, err, "goredisnodes: clients 2 and 3 lead to the same server: "+
		"redis://127.0.0.1:7002/0 and redis+cluster://127.0.0.1:7009,127.0.0.1:7002")
	_, err = goredisnodes.Open()
	require.EqualError(t, err, "goredisnodes: no clients: at least one is needed, usually 3 or 5")
}

// A bubble with goroutines left over fails.
func TestAfterAnErrorNoNodeIsLeftOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sound := redis.NewClient(&redis.Options{Addr: "127.0.0.1:7001", Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("nothing listens") // an open node dials again
		}})
		defer sound.Close()
		wrong := redis.NewClient(&redis.Options{Addr: "127.0.0.1:7002", DialTimeout: time.Hour})
		defer wrong.Close()
		nodes, err := goredisnodes.Open(sound, wrong)
		require.ErrorContains(t, err, `goredisnodes: client 2 of 2: pool: node "127.0.0.1:7002/0": DialTimeout is 1h0m0s`)
		require.Nil(t, nodes)
	})
}
