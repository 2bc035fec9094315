package goredisnodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/goredisnodes"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/sentinel"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// patience bounds the wait for what happens soon.
const patience = time.Minute

// nodeTimeout is long enough for the first dial on a busy machine.
const nodeTimeout = 10 * time.Second

const (
	name   = "invoice/42"
	secret = "before-7f3a"
)

// clientsOf makes a client for each server.
func clientsOf(t *testing.T, nodes []*redistest.Node, options func(i int, n *redistest.Node) *redis.Options) []redis.UniversalClient {
	t.Helper()
	list := make([]redis.UniversalClient, len(nodes))
	for i, n := range nodes {
		o := options(i, n)
		o.ReadTimeout = patience
		list[i] = closedWithTheTest(t, redis.NewClient(o))
	}
	return list
}

func closedWithTheTest[C redis.UniversalClient](t *testing.T, c C) C {
	t.Helper()
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// open makes a Locker over clients. The result of closeAll may be called more than once.
func open(t *testing.T, clients []redis.UniversalClient) (locker *redlock.Locker, closeAll func()) {
	t.Helper()
	nodes, err := goredisnodes.Open(clients...)
	require.NoError(t, err)
	return over(t, nodes)
}

func over(t *testing.T, nodes goredisnodes.Nodes, opts ...redlock.Option) (locker *redlock.Locker, closeAll func()) {
	t.Helper()
	locker, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(nodeTimeout)}, opts...)...)
	require.NoError(t, err)
	closeAll = func() {
		_ = locker.Close(context.WithoutCancel(t.Context())) // held locks are the test's business
	}
	t.Cleanup(closeAll)
	return locker, closeAll
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	redistest.Await(t, patience, 2*time.Millisecond, what, is)
}

// heldEverywhere waits until each node has the keys of these names. An acquire returns when a majority has
// granted, and the other nodes may execute it later, or not yet be connected.
func heldEverywhere(t *testing.T, nodes []*redistest.Node, names ...string) {
	t.Helper()
	for _, n := range nodes {
		for _, one := range names {
			await(t, "each node holds "+one, func() bool { return n.Do(t, "EXISTS", one) == int64(1) })
		}
	}
}

// setUser gives a user all rights to keys and commands.
func setUser(t *testing.T, nodes []*redistest.Node) {
	t.Helper()
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "+@all")
	}
}

// shares requires that a lock over the clients and the clients see the same keys, and that the
// clients still work when the Locker and its nodes are closed.
func shares(t *testing.T, clients []redis.UniversalClient) {
	t.Helper()
	ctx := t.Context()
	locker, closeAll := open(t, clients)
	lock, err := locker.TryAcquire(ctx, name, time.Minute)
	require.NoError(t, err)
	for _, c := range clients { // an acquire returns with a quorum: the third node follows
		await(t, "the client sees the lock", func() bool { return c.PTTL(ctx, name).Val() > 0 })
	}
	require.NoError(t, lock.Extend(ctx, 10*time.Minute))
	for _, c := range clients {
		await(t, "the client sees the extension", func() bool { return c.PTTL(ctx, name).Val() > time.Minute })
	}
	require.NoError(t, lock.Release(ctx))
	for _, c := range clients {
		await(t, "the client sees the release", func() bool {
			return c.SetNX(ctx, name, "held by a program on go-redis", time.Minute).Val()
		})
	}
	_, err = locker.TryAcquire(ctx, name, time.Minute)
	require.ErrorIs(t, err, redlock.ErrHeld)
	closeAll()
	for _, c := range clients {
		deleted, err := c.Del(ctx, name).Result()
		require.NoError(t, err)
		require.EqualValues(t, 1, deleted)
	}
}

func TestALockOverClientsWithAUserAndADatabase(t *testing.T) {
	nodes := redistest.Start(t, 3)
	setUser(t, nodes)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "default", "-set", "-eval", "-evalsha") // a lock needs the user
	}
	shares(t, clientsOf(t, nodes, func(_ int, n *redistest.Node) *redis.Options {
		return &redis.Options{Addr: n.Addr(), Username: "app", Password: secret, DB: 2}
	}))
}

func TestALockOverClientsWithTLS(t *testing.T) {
	trusted := redistest.NewAuthority(t, "clients")
	nodes, servers := redistest.StartTLS(t, 3, trusted)
	shares(t, clientsOf(t, nodes, func(_ int, n *redistest.Node) *redis.Options {
		return &redis.Options{Addr: n.Addr(), TLSConfig: &tls.Config{
			RootCAs: servers.Pool(), Certificates: []tls.Certificate{trusted.Issue(t, "app")}, MinVersion: tls.VersionTLS12,
		}}
	}))
}

// The names lead nowhere without the dialer.
func TestALockOverClientsWithADialer(t *testing.T) {
	nodes := redistest.Start(t, 3)
	servers := map[string]*redistest.Node{}
	shares(t, clientsOf(t, nodes, func(i int, n *redistest.Node) *redis.Options {
		address := fmt.Sprintf("redis-%d.internal:6379", i+1)
		servers[address] = n
		return &redis.Options{Addr: address, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, servers[addr].Addr())
		}}
	}))
}

// A held lock stays held while the password changes. The control keeps the old password.
func TestAProviderOfCredentialsFollowsAPasswordThatRotates(t *testing.T) {
	for kind, provide := range map[string]func(*redis.Options, func() string){
		"CredentialsProvider": func(o *redis.Options, password func() string) {
			o.CredentialsProvider = func() (string, string) { return "app", password() }
		},
		"CredentialsProviderContext": func(o *redis.Options, password func() string) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "app", password(), nil }
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const fresh = "after-91c2"
			nodes := redistest.Start(t, 3)
			setUser(t, nodes)
			var password atomic.Value
			password.Store(secret)
			living := clientsOf(t, nodes, func(_ int, n *redistest.Node) *redis.Options {
				o := &redis.Options{Addr: n.Addr()}
				provide(o, func() string { return password.Load().(string) })
				return o
			})
			locker, _ := open(t, living)
			lock, err := locker.TryAcquire(t.Context(), name, 5*time.Minute)
			require.NoError(t, err)
			behind, _ := open(t, clientsOf(t, nodes, func(_ int, n *redistest.Node) *redis.Options {
				return &redis.Options{Addr: n.Addr(), Username: "app", Password: secret}
			}))
			other, err := behind.TryAcquire(t.Context(), "other", time.Minute)
			require.NoError(t, err)
			heldEverywhere(t, nodes, name, "other") // a connection that ends takes an acquire in flight with it
			require.NoError(t, other.Release(t.Context()))

			password.Store(fresh)
			for i, n := range nodes {
				n.Do(t, "ACL", "SETUSER", "app", "resetpass", ">"+fresh)
				require.Positive(t, n.Do(t, "CLIENT", "KILL", "USER", "app"), "closed connections")
				await(t, "the node confirms the lock again", func() bool {
					s, err := locker.Inspect(t.Context(), name)
					return err == nil && s.Nodes[i].Held
				})
			}
			require.NoError(t, lock.Extend(t.Context(), 6*time.Minute))
			require.NoError(t, lock.Release(t.Context()))
			await(t, "the old password is refused", func() bool {
				_, err := behind.TryAcquire(t.Context(), "other", time.Minute)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.NotContains(t, err.Error(), secret)
				require.NotContains(t, err.Error(), fresh)
				return strings.Contains(err.Error(), "WRONGPASS")
			})
			for _, c := range living {
				require.NoError(t, c.Ping(t.Context()).Err())
			}
		})
	}
}

func TestALockOverAClientOfACluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	addresses := make([]string, len(c.Masters))
	for i, m := range c.Masters {
		addresses[i] = c.Inside(m)
	}
	client := closedWithTheTest(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses[:2], Dialer: c.Dial, ReadTimeout: patience}))
	shares(t, []redis.UniversalClient{client})
}

func TestALockBehindTheSentinelsOfFailoverOptions(t *testing.T) {
	const maxTTL, maxAge = 12 * time.Second, 4 * time.Second // a busy machine may stop for seconds
	g := redistest.StartGroup(t, 3)
	g.Master.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "+@all")
	g.Replica.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "+@all")
	options := &redis.FailoverOptions{
		MasterName: redistest.Watched, Username: "app", Password: secret, DB: 2, Dialer: g.Dial, ReadTimeout: patience,
	}
	for _, s := range g.Sentinels {
		options.SentinelAddrs = append(options.SentinelAddrs, s.Addr())
	}
	client := closedWithTheTest(t, redis.NewFailoverClient(options))
	cfg, err := goredisnodes.FailoverConfig(options)
	require.NoError(t, err)
	cfg.Kind.(*sentinel.Config).MaxAge = maxAge // a failover takes maxTTL longer than that
	node, err := pool.Open(cfg)
	require.NoError(t, err)
	locker, closeAll := over(t, goredisnodes.Nodes{node}, redlock.WithRestartGuard(maxTTL), redlock.WithNodeTimeout(maxTTL/3))

	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	await(t, "the master answers in time", func() bool {
		_, err = doctor.Admit(ctx, locker)
		return err == nil || redistest.Admitted(t, []*redistest.Node{g.Master}, err.Error())
	})
	require.NoError(t, err)
	for _, failOver := range []bool{false, true} {
		if failOver {
			g.FailOver(t)
			// It may hear of the new master later than the client, and until then a lock is one of the old master.
			await(t, "the node is the new master, which is in quarantine", func() bool {
				lock, err := locker.TryAcquire(ctx, "other", maxTTL)
				if err == nil {
					_ = lock.Release(ctx)
				}
				return errors.Is(err, redlock.ErrQuarantined)
			})
		}
		lock, err := locker.Acquire(ctx, name, maxTTL, redlock.WithAutoExtend())
		require.NoError(t, err)
		await(t, "the client sees the lock", func() bool {
			require.NoError(t, context.Cause(lock.Context()), "the lock is lost")
			return client.Exists(ctx, name).Val() == 1
		})
		require.NoError(t, lock.Release(ctx))
		await(t, "the client sees the release", func() bool {
			n, err := client.Exists(ctx, name).Result()
			return err == nil && n == 0
		})
	}
	closeAll()
	require.NoError(t, client.Ping(ctx).Err())
}
