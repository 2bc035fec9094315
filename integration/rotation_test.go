package integration

import (
	"context"
	"crypto/tls"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// secret is what a service authenticates with.
type secret struct {
	password string
	cert     tls.Certificate
}

// vault has the secret that a service reads whenever it dials.
type vault struct {
	current atomic.Pointer[secret]
	asked   atomic.Int64
	servers *redistest.Authority
}

func newVault(s secret, servers *redistest.Authority) *vault {
	v := &vault{servers: servers}
	v.current.Store(&s)
	return v
}

func (v *vault) credentials(context.Context) (user, password string, err error) {
	v.asked.Add(1)
	return "app", v.current.Load().password, nil
}

func (v *vault) tls(context.Context) (*tls.Config, error) {
	v.asked.Add(1)
	return &tls.Config{RootCAs: v.servers.Pool(), Certificates: []tls.Certificate{v.current.Load().cert}, MinVersion: tls.VersionTLS12}, nil
}

// service is a Locker that authenticates with the secret in the vault.
func (v *vault) service(t *testing.T, nodes []*redistest.Node) *redlock.Locker {
	t.Helper()
	l, _ := openPools(t, nodes, func(c *pool.Config) { c.Credentials, c.TLS = v.credentials, v.tls })
	answered(t, l)
	return l
}

// shutOut requires that no node votes, that the error of each has this reason, and that no error
// contains a password.
func shutOut(t *testing.T, l *redlock.Locker, reason *regexp.Regexp, passwords ...string) {
	t.Helper()
	said := make(map[string]bool) // by node; not every dial gets an error, because a server that has closed a connection may reset it
	await(t, "every node has reported the reason", func() bool {
		_, err := l.TryAcquire(t.Context(), "y", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, p := range passwords {
			require.NotContains(t, err.Error(), p)
		}
		votes := votesOf(t, err)
		for _, v := range votes {
			require.NotEqual(t, redlock.OutcomeGranted, v.Outcome)
			said[v.Node] = said[v.Node] || v.Outcome == redlock.OutcomeFailed && reason.MatchString(v.Err.Error())
		}
		return !slices.ContainsFunc(votes, func(v redlock.Vote) bool { return !said[v.Node] })
	})
}

// The procedure of docs/guide.md: first the service gets the new secret, then each master, which
// closes its connections. A held lock stays held, and the old secret is rejected.
func TestAPasswordAndACertificateRotateWhileTheServiceRuns(t *testing.T) {
	first, second := redistest.NewAuthority(t, "first"), redistest.NewAuthority(t, "second")
	nodes, servers := redistest.StartTLS(t, 3, first, second)
	t.Cleanup(redistest.NoGoroutines(t))
	for _, n := range nodes {
		setUser(t, n, "reset", "on", ">before-7f3a", "~*", "&*", "+@all")
	}
	old, fresh := secret{"before-7f3a", first.Issue(t, "app")}, secret{"after-91c2", second.Issue(t, "app")}
	living := newVault(old, servers)
	l := living.service(t, nodes)
	k := acquired(t, l, "x", 5*time.Minute)
	heldEverywhere(t, nodes, "x") // a connection that is closed takes what is in flight with it

	// The controls: each has connections like the service, but keeps using an old secret.
	stale := map[string]*vault{
		"WRONGPASS":   newVault(old, servers),
		"certificate": newVault(old, servers),
	}
	behind := make(map[string]*redlock.Locker)
	for reason, v := range stale {
		behind[reason] = v.service(t, nodes)
		released(t, acquired(t, behind[reason], "y", time.Minute))
		answered(t, behind[reason])
	}
	stale["WRONGPASS"].current.Store(&secret{old.password, fresh.cert})
	stale["certificate"].current.Store(&secret{fresh.password, old.cert})

	asked := living.asked.Load()
	living.current.Store(&fresh)
	for i, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "app", "resetpass", ">after-91c2")
		n.Trust(t, 1)
		require.Positive(t, n.Do(t, "CLIENT", "KILL", "USER", "app"), "closed connections")
		await(t, "the node confirms the lock again", func() bool {
			s, err := l.Inspect(t.Context(), "x")
			return err == nil && s.Nodes[i].Held
		})
		confirmed(t, k)
	}
	assert.GreaterOrEqual(t, living.asked.Load(), asked+2*3, "both secrets, for each node")
	require.NoError(t, k.Extend(t.Context(), 6*time.Minute))
	released(t, k)
	released(t, acquired(t, l, "y", time.Minute))

	for reason, l := range behind {
		shutOut(t, l, regexp.MustCompile(reason), old.password, fresh.password)
	}
	redistest.NoKeys(t, nodes, time.Second)
}
