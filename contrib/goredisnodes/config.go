package goredisnodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// Config returns the settings of a node that reaches the client's server as the client does. The
// caller may change them before pool.Open. The client is a *redis.Client of one server or a
// *redis.ClusterClient, and no type that embeds one: such a type may change what is sent.
//
// Config reads the client's Options, and sends nothing. It fails for the options that the package
// comment names. The error names the server and all such options, and contains no password.
// pool.Open checks the bounds of the settings. Later changes of the Options change nothing.
//
// A Dialer and a CredentialsProviderContext must return when their context is done, as
// pool.Config says. A CredentialsProvider has no context. While it hangs no other call begins, and
// the node's dials fail.
//
// It is safe for concurrent use.
func Config(client redis.UniversalClient) (pool.Config, error) {
	cfg, err := config(client)
	if err != nil {
		return pool.Config{}, fmt.Errorf("goredisnodes: %w", err)
	}
	return cfg, nil
}

// FailoverConfig is [Config] for the options of redis.NewFailoverClient, because such a client does
// not keep them. redis.UniversalOptions has them as well: see its method Failover. The node's
// master is the one that a majority of SentinelAddrs names, so these must be all Sentinels. go-redis
// follows the first one that answers. Username, password and TLS of the Sentinels are those that
// go-redis sends to them.
//
// redlock.New requires WithRestartGuard for such a node (see sentinel.Config).
func FailoverConfig(options *redis.FailoverOptions) (pool.Config, error) {
	if options == nil {
		return pool.Config{}, errors.New("goredisnodes: the FailoverOptions are nil")
	}
	cfg, err := failoverConfig(*options)
	if err != nil {
		return pool.Config{}, fmt.Errorf("goredisnodes: %w", err)
	}
	return cfg, nil
}

// config is Config without the prefix of its errors.
func config(client redis.UniversalClient) (pool.Config, error) {
	if client == nil || reflect.ValueOf(client).Kind() == reflect.Pointer && reflect.ValueOf(client).IsNil() {
		return pool.Config{}, errors.New("the client is nil")
	}
	switch c := client.(type) {
	case *redis.Client:
		return serverConfig(*c.Options())
	case *redis.ClusterClient:
		return clusterConfig(*c.Options())
	case *redis.Ring:
		return pool.Config{}, errors.New("a Ring spreads keys over several servers: pass a client of each of its servers")
	}
	return pool.Config{}, fmt.Errorf("the client is a %T, must be a *redis.Client or a *redis.ClusterClient", client)
}

// failoverAddr is the Addr of every client that redis.NewFailoverClient makes.
const failoverAddr = "FailoverClient"

// serverConfig returns the settings for a client of one server.
func serverConfig(o redis.Options) (pool.Config, error) {
	if o.Addr == failoverAddr {
		return pool.Config{}, errors.New("the client is behind Sentinels, and keeps no addresses of them: " +
			"pass its FailoverOptions to FailoverConfig")
	}
	if sameCode(o.Dialer, defaultDialer()) {
		o.Dialer = nil // package pool dials: it heeds the context, also with TLS
	}
	cfg := shared(o)
	cfg.Network, cfg.Address, cfg.Database = o.Network, o.Addr, o.DB
	return cfg, refuse(cfg, o, func() redis.Options {
		c := redis.NewClient(&redis.Options{Addr: o.Addr, MaintNotificationsConfig: disabled()})
		defer func() { _ = c.Close() }() // it has no connections
		return *c.Options()
	})
}

// clusterConfig returns the settings for a client of a Cluster.
func clusterConfig(o redis.ClusterOptions) (pool.Config, error) {
	if len(o.Addrs) == 0 {
		return pool.Config{}, errors.New("the ClusterClient has no Addrs; " +
			"for one of NewFailoverClusterClient pass its FailoverOptions to FailoverConfig")
	}
	if sameCode(o.NewClient, redis.NewClient) {
		o.NewClient = nil // the default
	}
	cfg := shared(redis.Options{
		ClientName: o.ClientName, Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig,
		Username: o.Username, Password: o.Password,
		CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
	})
	cfg.Kind = &cluster.Config{Addresses: slices.Clone(o.Addrs)}
	return cfg, refuse(cfg, o, func() redis.ClusterOptions {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: slices.Clone(o.Addrs), MaintNotificationsConfig: disabled()})
		defer func() { _ = c.Close() }() // it has no connections
		return *c.Options()
	})
}

// failoverConfig returns the settings for a master behind Sentinels.
func failoverConfig(o redis.FailoverOptions) (pool.Config, error) {
	cfg := shared(redis.Options{
		ClientName: o.ClientName, Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig,
		Username: o.Username, Password: o.Password,
		CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
	})
	cfg.Database = o.DB
	s := &sentinel.Config{Master: o.MasterName, Addresses: slices.Clone(o.SentinelAddrs), TLS: cfg.TLS}
	s.Username, s.Password = login(o.SentinelUsername, o.SentinelPassword)
	cfg.Kind = s
	return cfg, refuse(cfg, o, func() redis.FailoverOptions { return redis.FailoverOptions{} }) // as the program wrote them
}

// shared returns the settings that all kinds of clients have, without an address.
func shared(o redis.Options) pool.Config {
	cfg := pool.Config{ClientName: o.ClientName, Dial: o.Dialer, DialTimeout: o.DialTimeout}
	cfg.Username, cfg.Password = login(o.Username, o.Password)
	cfg.Credentials = credentials(o)
	// Only go-redis's own dialer uses TLSConfig.
	if o.Dialer == nil && o.TLSConfig != nil {
		config := o.TLSConfig.Clone()
		cfg.TLS = func(context.Context) (*tls.Config, error) { return config, nil }
	}
	return cfg
}

// login returns what go-redis sends: nothing without a password, even if there is a user.
func login(user, password string) (string, string) {
	if password == "" {
		return "", ""
	}
	return user, password
}

// credentials returns the provider that go-redis would call, or nil.
func credentials(o redis.Options) func(context.Context) (user, password string, err error) {
	provider := o.CredentialsProviderContext
	if provider == nil && o.CredentialsProvider != nil {
		provider = interruptible(o.CredentialsProvider)
	}
	if provider == nil {
		return nil
	}
	return func(ctx context.Context) (string, string, error) {
		user, password, err := provider(ctx)
		if err != nil {
			return "", "", err
		}
		user, password = login(user, password)
		return user, password, nil
	}
}

// interruptible adds a context to a provider without one. A call that hangs is left behind. No
// other call begins until it has returned, so that such calls do not accumulate.
func interruptible(provider func() (user, password string)) func(context.Context) (user, password string, err error) {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context) (string, string, error) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return "", "", errors.New("an earlier call of CredentialsProvider has not returned")
		}
		type result struct{ user, password string }
		results := make(chan result, 1)
		go func() {
			defer func() { <-turn }()
			user, password := provider()
			results <- result{user, password}
		}()
		select {
		case r := <-results:
			return r.user, r.password, nil
		case <-ctx.Done():
			return "", "", errors.New("CredentialsProvider has not returned in time")
		}
	}
}

// defaultDialer returns the Dialer of a client whose options had none. go-redis sets it, so a
// client always has one.
var defaultDialer = sync.OnceValue(func() any {
	c := redis.NewClient(&redis.Options{MaintNotificationsConfig: disabled()})
	defer func() { _ = c.Close() }() // it has no connections
	return c.Options().Dialer
})

// disabled returns the setting of a client that does not listen for maintenance.
func disabled() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// sameCode reports whether two functions have the same code. Two closures of one place have the
// same code as well. Closures of redis.NewDialer are of several places, because the compiler
// inlines it: a dialer that a program made with it is not the default one. In a build without
// inlining it is taken for the default one.
func sameCode(f, g any) bool { return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer() }
