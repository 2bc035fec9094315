package integration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// exercised runs the exercise with all rights, and then without each of the given ones, which some
// server must deny.
func exercised(t *testing.T, servers []*redistest.Node, rights, each []string,
	open func(testing.TB, ...redlock.Option) *redlock.Locker, more func(x *exercise) []step,
) {
	t.Helper()
	run := func(t *testing.T, missing bool, rights []string) {
		t.Helper()
		allow(t, servers, rights)
		var opts []redlock.Option
		if missing {
			opts = append(opts, hasty)
		}
		x := &exercise{t: t, servers: servers, missing: missing, a: open(t, opts...), b: open(t, opts...)}
		x.run(x.common(more(x)))
		for _, l := range []*redlock.Locker{x.a, x.b} {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			if err := l.Close(ctx); !missing {
				assert.NoError(t, err)
			}
			cancel()
		}
		for _, n := range servers { // locks that could not be released
			for _, key := range lockKeys(t, n) {
				_, _ = n.Try("DEL", key)
			}
		}
	}
	t.Run("with all", func(t *testing.T) { run(t, false, rights) })
	for _, right := range each {
		t.Run("without "+right, func(t *testing.T) {
			require.Contains(t, rights, right)
			if strings.HasPrefix(right, "&") && !knowsChannels(servers[0]) {
				t.Skip("Redis 6.0 has no rights for channels")
			}
			left := less(rights, right)
			if right == "+client|id" {
				left = less(left, "+client|info") // which has the ID
			}
			run(t, true, left)
		})
	}
}

func knowsChannels(n *redistest.Node) bool {
	_, err := n.Try("ACL", "SETUSER", "nobody", "resetchannels")
	return err == nil
}

func nothingMore(*exercise) []step { return nil }

// killed has acquires in flight when their connection is killed. They arrive late.
func (x *exercise) killed(context.Context) error {
	redistest.NoKeys(x.t, x.servers, patience)
	late := &network{}
	var pools []*pool.Node
	for _, n := range x.servers {
		p, err := pool.Open(pool.Config{
			Address: n.Addr(), Username: "app", Password: "secret", HardTimeout: time.Minute, Dial: late.dial,
		})
		require.NoError(x.t, err)
		pools = append(pools, p)
	}
	l, err := redlock.New(pools, redlock.WithKeyPrefix(appPrefix), redlock.WithNodeTimeout(2*time.Second)) // for nodes that answer late
	require.NoError(x.t, err)
	defer closeLocker(x.t, l)
	answered(x.t, l)
	late.arrivesLate(x.t, l, x.servers, pools)
	return nil
}

func TestTheDocumentedRightsAreEnoughAndNoneIsTooMany(t *testing.T) {
	nodes := masters(t, 3)
	plain := documented(t, everyLock, oneMaster, waitingForOne, healthChecks)
	exercised(t, nodes, plain, plain, asApp(nodes), func(x *exercise) []step {
		return []step{{"the end of the minimum hold", x.nothingHeld}, {"a connection that died", x.killed}}
	})

	fenced := documented(t, everyLock, oneMaster, waitingForOne, healthChecks, fencing)
	exercised(t, nodes, fenced, documented(t, fencing), asApp(nodes, redlock.WithFencing()), nothingMore)

	_, example, _ := strings.Cut(rightsSection(t), "\n    ACL SETUSER app reset on >secret ")
	example, _, _ = strings.Cut(example, "\n")
	assert.ElementsMatch(t, append(fenced, "resetchannels", "-@all"), strings.Fields(example), "the example has all rights of the rows")

	if redistest.Major(t) >= 7 {
		reads := append(less(plain, "~redlock:guard"), "%R~redlock:guard")
		exercised(t, nodes, reads, nil, asApp(nodes), nothingMore)
	}

	const maxTTL = time.Minute
	guarded := asApp(nodes, redlock.WithRestartGuard(maxTTL), redlock.WithRepair(), redlock.WithFencing())
	admittedBy(t, nodes, len(nodes), guarded)
	exercised(t, nodes, fenced, []string{"~redlock:guard"}, guarded, func(x *exercise) []step {
		return []step{{"repair", x.repaired}}
	})
	underGuard := documented(t, everyLock, oneMaster, waitingForOne, healthChecks, restartGuard)
	exercised(t, nodes, underGuard, documented(t, restartGuard), asApp(nodes, redlock.WithRestartGuard(maxTTL)), nothingMore)
}

// admittedBy admits nodes with the documented rights, and requires that each of those rights is
// necessary. The first servers are masters.
func admittedBy(t *testing.T, nodes []*redistest.Node, masters int, open func(testing.TB, ...redlock.Option) *redlock.Locker) {
	t.Helper()
	rights := documented(t, everyLock, oneMaster, fencing, admission)
	admit := func(rights []string) error {
		allow(t, nodes, rights)
		l := open(t)
		defer closeLocker(t, l)
		return admitError(t, l, nodes[:masters])
	}
	nodes[0].Do(t, "SET", "other", "without a TTL")
	for _, right := range []string{"+scan", "~*"} {
		err := admit(less(rights, right))
		require.ErrorIs(t, err, doctor.ErrNotAdmitted, right)
		require.ErrorContains(t, err, "+scan +pttl", right)
		require.NotEmpty(t, denials(t, nodes), right)
	}
	require.NoError(t, admit(rights))
	require.Empty(t, denials(t, nodes))
	nodes[0].Do(t, "DEL", "other")
}

// repaired has one server lose a lock, and get it again.
func (x *exercise) repaired(ctx context.Context) error {
	k, err := x.a.Acquire(ctx, "repaired", heldFor)
	if err != nil {
		return err
	}
	key := appPrefix + "repaired"
	there := func() bool { return x.servers[0].Do(x.t, "EXISTS", key) == int64(1) }
	err = until(ctx, there)
	x.servers[0].Do(x.t, "DEL", key)
	err = errors.Join(err, k.Extend(ctx, 2*heldFor), until(ctx, there))
	return errors.Join(err, k.Release(ctx))
}

// The doctor probes every right in the table, and reports each one that is missing.
func TestTheDoctorNamesEachMissingRight(t *testing.T) {
	nodes := masters(t, 1)
	rights := documented(t, everyLock, oneMaster, waitingForOne, healthChecks, fencing, diagnosis)
	for what, opts := range map[string][]redlock.Option{
		"plain":   {redlock.WithFencing()},
		"guarded": {redlock.WithFencing(), redlock.WithRestartGuard(time.Minute)},
	} {
		diagnosed := func(t *testing.T, rights []string) doctor.Node {
			t.Helper()
			allow(t, nodes, rights)
			l := asApp(nodes, opts...)(t)
			defer closeLocker(t, l)
			return examined(t, l).Nodes[0]
		}
		t.Run(what, func(t *testing.T) {
			require.Empty(t, diagnosed(t, rights).MissingRights)
			require.Empty(t, denials(t, nodes))
			for _, right := range rights {
				if strings.HasPrefix(right, "&") && !knowsChannels(nodes[0]) {
					continue
				}
				missing := diagnosed(t, less(rights, right)).MissingRights
				require.NotEmpty(t, denials(t, nodes), right)
				if right != "+config|get" { // no lock needs this right
					require.Equal(t, []string{strings.TrimPrefix(right, "+")}, missing, right)
				}
			}
		})
	}
}

func TestTheDocumentedRightsAreEnoughOnACluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	t.Cleanup(redistest.NoGoroutines(t))
	open := func(opts ...redlock.Option) func(t testing.TB, more ...redlock.Option) *redlock.Locker {
		return func(t testing.TB, more ...redlock.Option) *redlock.Locker {
			t.Helper()
			urls := "redis+cluster://app:secret@" + c.Masters[0].Addr()
			cfg, err := pool.ParseURL(urls)
			require.NoError(t, err)
			cfg.Name, cfg.Dial, cfg.Kind = "c", c.Dial, &cluster.Config{Addresses: []string{c.Inside(c.Masters[0])}}
			n, err := pool.Open(cfg)
			require.NoError(t, err)
			opts := slices.Concat([]redlock.Option{redlock.WithKeyPrefix(appPrefix), redlock.WithNodeTimeout(busyTimeout)}, opts, more)
			l, err := redlock.New([]*pool.Node{n}, opts...)
			require.NoError(t, err)
			return l
		}
	}
	plain := documented(t, everyLock, oneCluster, waitingForOne, healthChecks)
	exercised(t, c.Masters, plain, documented(t, oneCluster), open(), func(x *exercise) []step {
		return []step{{"a slot moves", func(ctx context.Context) error { return x.moved(ctx, c) }}}
	})
	fenced := documented(t, everyLock, oneCluster, waitingForOne, healthChecks, clusterFencing)
	exercised(t, c.Masters, fenced, documented(t, clusterFencing), open(redlock.WithFencing()), nothingMore)

	rights := documented(t, everyLock, oneCluster, waitingForOne, healthChecks, clusterFencing, diagnosis)
	diagnosed := func(rights []string) []string {
		allow(t, c.Masters, rights)
		l := open(redlock.WithFencing())(t)
		defer closeLocker(t, l)
		return examined(t, l).Nodes[0].MissingRights
	}
	assert.Empty(t, diagnosed(rights))
	assert.Empty(t, denials(t, c.Masters))
	for _, right := range []string{"+asking", "~redlock:fence:app/*", "~redlock:fence:{app/*"} {
		assert.Equal(t, []string{strings.TrimPrefix(right, "+")}, diagnosed(less(rights, right)))
	}
}

// moved acquires a lock repeatedly while its slot moves to another master and back.
func (x *exercise) moved(ctx context.Context, c *redistest.Cluster) error {
	const name = "moving"
	var errs []error
	for range 2 {
		to := c.Masters[0]
		if c.Owner(x.t, appPrefix+name) == to {
			to = c.Masters[1]
		}
		c.Migrate(x.t, appPrefix+name, to, func() {
			k, err := x.a.Acquire(ctx, name, heldFor)
			if err == nil {
				err = k.Release(ctx)
			}
			errs = append(errs, err)
		})
	}
	return errors.Join(errs...)
}

func TestTheDocumentedRightsAreEnoughBehindSentinels(t *testing.T) {
	g := redistest.StartGroup(t, 1)
	t.Cleanup(redistest.NoGoroutines(t))
	if !knowsChannels(g.Sentinels[0]) {
		t.Skip("these Sentinels do not support users")
	}
	open := func(t testing.TB, more ...redlock.Option) *redlock.Locker {
		t.Helper()
		cfg, err := pool.ParseURL(g.URL())
		require.NoError(t, err)
		cfg.Name, cfg.Dial, cfg.Username, cfg.Password = "a", g.Dial, "app", "secret"
		behind := cfg.Kind.(*sentinel.Config)
		behind.MaxAge = 20 * time.Second // there is no failover, and a stopped machine must not make answers too old
		behind.Username, behind.Password = "app", "secret"
		n, err := pool.Open(cfg)
		require.NoError(t, err)
		l, err := redlock.New([]*pool.Node{n}, append([]redlock.Option{
			redlock.WithKeyPrefix(appPrefix), redlock.WithNodeTimeout(busyTimeout), redlock.WithRestartGuard(time.Minute), redlock.WithFencing(),
		}, more...)...)
		require.NoError(t, err)
		return l
	}
	sentinels := documented(t, ofSentinels)
	allow(t, g.Sentinels, sentinels)
	servers := []*redistest.Node{g.Master, g.Replica}
	admittedBy(t, servers, 1, open)
	exercised(t, servers, documented(t, everyLock, oneMaster, waitingForOne, healthChecks, fencing), nil, open, nothingMore)
	require.Empty(t, denials(t, g.Sentinels))
	for _, right := range sentinels {
		allow(t, g.Sentinels, less(sentinels, right))
		l := open(t)
		await(t, "a Sentinel denies a command without "+right, func() bool { return len(denials(t, g.Sentinels)) > 0 })
		closeLocker(t, l)
	}
}
