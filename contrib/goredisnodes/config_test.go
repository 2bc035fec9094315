package goredisnodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// client makes a client that is closed with the test.
func client(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	c := redis.NewClient(options)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// cluster makes a client of a Cluster that is closed with the test.
func clusterClient(t *testing.T, options *redis.ClusterOptions) *redis.ClusterClient {
	t.Helper()
	c := redis.NewClusterClient(options)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func configOf(t *testing.T, client redis.UniversalClient) pool.Config {
	t.Helper()
	cfg, err := Config(client)
	require.NoError(t, err)
	return cfg
}

func TestConfigTakesTheSettingsOfAServer(t *testing.T) {
	cfg := configOf(t, client(t, &redis.Options{
		Addr: "127.0.0.1:7001", Username: "app", Password: "secret", DB: 3, ClientName: "billing", DialTimeout: 2 * time.Second,
	}))
	require.Equal(t, pool.Config{
		Network: "tcp", Address: "127.0.0.1:7001", Username: "app", Password: "secret", Database: 3, ClientName: "billing",
		DialTimeout: 2 * time.Second,
	}, cfg, "without a Dial: package pool dials")
	require.Equal(t, "redis://app@127.0.0.1:7001/3", cfg.String())
}

func TestConfigTakesTheDefaultsOfGoRedis(t *testing.T) {
	require.Equal(t, pool.Config{Network: "tcp", Address: "localhost:6379", DialTimeout: 5 * time.Second}, configOf(t, client(t, &redis.Options{})))
}

func TestConfigTakesAUnixSocket(t *testing.T) {
	cfg := configOf(t, client(t, &redis.Options{Addr: "/run/redis.sock", DB: 2}))
	require.Equal(t, "unix:///run/redis.sock?db=2", cfg.String())
}

func TestConfigTakesTheSettingsOfACluster(t *testing.T) {
	addresses := []string{"127.0.0.1:7001", "127.0.0.1:7002"}
	c := clusterClient(t, &redis.ClusterOptions{
		Addrs: addresses, Username: "app", Password: "secret", ClientName: "billing", DialTimeout: 2 * time.Second,
		TLSConfig: &tls.Config{ServerName: "redis.internal"},
	})
	cfg := configOf(t, c)
	require.Equal(t, "redis.internal", tlsOf(t, cfg).ServerName)
	cfg.TLS = nil
	addresses[1] = "changed"
	require.Equal(t, pool.Config{
		Kind:     &cluster.Config{Addresses: []string{"127.0.0.1:7001", "127.0.0.1:7002"}},
		Username: "app", Password: "secret", ClientName: "billing",
		DialTimeout: 2 * time.Second,
	}, cfg)
}

func TestFailoverConfigTakesTheSettingsOfAMasterAndOfItsSentinels(t *testing.T) {
	options := &redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"127.0.0.1:7001", "127.0.0.1:7002"},
		SentinelUsername: "watcher", SentinelPassword: "other secret",
		Username: "app", Password: "secret", DB: 3, ClientName: "billing", DialTimeout: 2 * time.Second,
		TLSConfig: &tls.Config{ServerName: "redis.internal"},
	}
	cfg, err := FailoverConfig(options)
	require.NoError(t, err)
	options.SentinelAddrs[0] = "changed"
	require.Equal(t, "redis.internal", tlsOf(t, cfg).ServerName)
	behind := cfg.Kind.(*sentinel.Config)
	fromSentinels, err := behind.TLS(t.Context())
	require.NoError(t, err)
	require.Equal(t, "redis.internal", fromSentinels.ServerName)
	cfg.TLS, behind.TLS = nil, nil
	require.Equal(t, pool.Config{
		Kind: &sentinel.Config{
			Master: "main", Addresses: []string{"127.0.0.1:7001", "127.0.0.1:7002"}, Username: "watcher", Password: "other secret",
		},
		Username: "app", Password: "secret", Database: 3, ClientName: "billing", DialTimeout: 2 * time.Second,
	}, cfg)
}

func TestAUserWithoutAPasswordIsNotSentAsInGoRedis(t *testing.T) {
	require.Empty(t, configOf(t, client(t, &redis.Options{Username: "app"})).Username)
	cfg, err := FailoverConfig(&redis.FailoverOptions{Username: "app", SentinelUsername: "watcher"})
	require.NoError(t, err)
	require.Empty(t, cfg.Username)
	require.Empty(t, cfg.Kind.(*sentinel.Config).Username)
	user, password := ask(t, configOf(t, client(t, &redis.Options{CredentialsProvider: func() (string, string) { return "app", "" }})))
	require.Empty(t, user+password)
}

func TestTheTLSConfigIsACopy(t *testing.T) {
	options := &redis.Options{TLSConfig: &tls.Config{ServerName: "before"}}
	cfg := configOf(t, client(t, options))
	options.TLSConfig.ServerName = "after"
	require.Equal(t, "before", tlsOf(t, cfg).ServerName)
	require.Nil(t, cfg.Dial, "package pool dials: go-redis's dialer ignores the context")
}

// The Dialer of the client has done all that it does, TLS included.
func TestADialerIsUsedAsGoRedisUsesIt(t *testing.T) {
	dial := func(_ context.Context, network, address string) (net.Conn, error) {
		return nil, fmt.Errorf("dialled %s %s", network, address)
	}
	other := redis.Options{Addr: "127.0.0.1:7009", TLSConfig: &tls.Config{ServerName: "other"}}
	withTLS := &tls.Config{ServerName: "ignored"}
	failover, err := FailoverConfig(&redis.FailoverOptions{Dialer: dial, TLSConfig: withTLS})
	require.NoError(t, err)
	for name, cfg := range map[string]pool.Config{
		"server":   configOf(t, client(t, &redis.Options{Dialer: dial, TLSConfig: withTLS})),
		"cluster":  configOf(t, clusterClient(t, &redis.ClusterOptions{Addrs: []string{"127.0.0.1:7001"}, Dialer: dial, TLSConfig: withTLS})),
		"failover": failover,
	} {
		require.Nil(t, cfg.TLS, name)
		_, err := cfg.Dial(t.Context(), "tcp", "redis.internal:6379")
		require.EqualError(t, err, "dialled tcp redis.internal:6379", name)
	}
	for name, dialer := range map[string]func(context.Context, string, string) (net.Conn, error){
		"redis.NewDialer": redis.NewDialer(&other), "Options.NewDialer": other.NewDialer(),
	} {
		cfg := configOf(t, client(t, &redis.Options{Dialer: dialer, TLSConfig: withTLS}))
		require.NotNil(t, cfg.Dial, "%s of other options is not the default", name)
		require.Nil(t, cfg.TLS, name)
	}
}

func TestCredentialsHaveThePrecedenceOfGoRedis(t *testing.T) {
	fixed := redis.Options{Username: "app", Password: "fixed"}
	require.Nil(t, configOf(t, client(t, &fixed)).Credentials)

	provided := fixed
	provided.CredentialsProvider = func() (string, string) { return "app", "provided" }
	_, password := ask(t, configOf(t, client(t, &provided)))
	require.Equal(t, "provided", password)

	provided.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
		return "app", ctx.Value(key{}).(string), nil
	}
	user, password := ask(t, configOf(t, client(t, &provided)))
	require.Equal(t, "app", user)
	require.Equal(t, "of the context", password)

	failing := errors.New("the vault is sealed")
	provided.CredentialsProviderContext = func(context.Context) (string, string, error) { return "app", "left over", failing }
	user, password, err := configOf(t, client(t, &provided)).Credentials(t.Context())
	require.ErrorIs(t, err, failing)
	require.Empty(t, user+password)
}

func TestAProviderIsCalledAtEveryDial(t *testing.T) {
	passwords := []string{"first", "second", "third"}
	next := 0
	options := redis.Options{CredentialsProvider: func() (string, string) {
		next++
		return "", passwords[next-1]
	}}
	cfg := configOf(t, client(t, &options))
	for _, want := range passwords {
		_, password := ask(t, cfg)
		require.Equal(t, want, password)
	}
}

// A provider that hangs must not keep a node from closing, and its calls must not accumulate.
func TestAProviderWithoutAContextIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		hang := make(chan struct{})
		cfg := configOf(t, client(t, &redis.Options{CredentialsProvider: func() (string, string) {
			calls.Add(1)
			<-hang
			return "app", "secret"
		}}))
		for _, want := range []string{"CredentialsProvider has not returned in time", "an earlier call of CredentialsProvider has not returned"} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, _, err := cfg.Credentials(ctx)
			cancel()
			require.EqualError(t, err, want)
			require.EqualValues(t, 1, calls.Load())
		}
		close(hang)
		_, password := ask(t, cfg)
		require.Equal(t, "secret", password)
		require.EqualValues(t, 2, calls.Load())
	})
}

func TestConfigRefusesWhatIsNoClientOfAServerOrACluster(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:7001"}})
	defer ring.Close()
	behind := &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"127.0.0.1:7001"}}
	failover := redis.NewFailoverClient(behind)
	defer failover.Close()
	failoverCluster := redis.NewFailoverClusterClient(behind)
	defer failoverCluster.Close()
	plain := client(t, &redis.Options{})
	pipeliner, err := plain.AutoPipeline()
	require.NoError(t, err)
	defer pipeliner.Close()
	for _, refused := range []struct {
		client redis.UniversalClient
		why    string
	}{
		{nil, "the client is nil"},
		{(*redis.Client)(nil), "the client is nil"},
		{(*redis.ClusterClient)(nil), "the client is nil"},
		{ring, "a Ring spreads keys over several servers: pass a client of each of its servers"},
		{failover, "the client is behind Sentinels, and keeps no addresses of them: pass its FailoverOptions to FailoverConfig"},
		{failoverCluster, "the ClusterClient has no Addrs; for one of NewFailoverClusterClient pass its FailoverOptions to FailoverConfig"},
		{pipeliner, "the client is a *redis.AutoPipeliner, must be a *redis.Client or a *redis.ClusterClient"},
		{wrapper{plain}, "the client is a goredisnodes.wrapper, must be a *redis.Client or a *redis.ClusterClient"},
	} {
		_, err := Config(refused.client)
		require.EqualError(t, err, "goredisnodes: "+refused.why)
		_, err = Open(plain, refused.client)
		require.EqualError(t, err, "goredisnodes: client 2 of 2: "+refused.why)
	}
	_, err = FailoverConfig(nil)
	require.EqualError(t, err, "goredisnodes: the FailoverOptions are nil")
}

func TestConfigRefusesAClusterWhoseClientsTheProgramMakes(t *testing.T) {
	_, err := Config(clusterClient(t, &redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:7001"}, NewClient: func(o *redis.Options) *redis.Client {
			o.DB = 1
			return redis.NewClient(o)
		},
	}))
	require.EqualError(t, err, "goredisnodes: the client of redis+cluster://127.0.0.1:7001: NewClient is set, but a node makes its own connections")
}

func TestNoTextContainsAPassword(t *testing.T) {
	const secret = "7f3a-password"
	refusedFor := func(context.Context, *redis.Conn) error { return nil }
	for _, c := range []redis.UniversalClient{
		client(t, &redis.Options{Addr: "127.0.0.1:7001", Username: "app", Password: secret}),
		client(t, &redis.Options{Addr: "127.0.0.1:7001", Username: "app", Password: secret, OnConnect: refusedFor}),
		client(t, &redis.Options{Addr: "redis://:" + secret + "@127.0.0.1:7001"}),
		client(t, &redis.Options{Addr: "redis://:" + secret + "@127.0.0.1:7001", OnConnect: refusedFor}),
		client(t, &redis.Options{Addr: "127.0.0.1:7001", Password: secret, DialTimeout: time.Hour}),
		clusterClient(t, &redis.ClusterOptions{Addrs: []string{"redis://:" + secret + "@127.0.0.1:7001"}, Password: secret, OnConnect: refusedFor}),
	} {
		cfg, err := Config(c)
		nodes, errOfOpen := Open(c)
		_, errOfTwo := Open(c, c)
		require.NoError(t, nodes.Close())
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			require.NotContains(t, fmt.Sprintf(verb+verb+verb+verb+verb, cfg, err, nodes, errOfOpen, errOfTwo), secret)
		}
	}
}

type key struct{}

// ask calls the provider of credentials.
func ask(t *testing.T, cfg pool.Config) (user, password string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "of the context"), time.Minute)
	defer cancel()
	user, password, err := cfg.Credentials(ctx)
	require.NoError(t, err)
	return user, password
}

func tlsOf(t *testing.T, cfg pool.Config) *tls.Config {
	t.Helper()
	config, err := cfg.TLS(t.Context())
	require.NoError(t, err)
	return config
}

// wrapper is a client of a program, which may do anything before it sends a command.
type wrapper struct{ redis.UniversalClient }
