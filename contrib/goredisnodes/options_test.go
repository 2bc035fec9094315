package goredisnodes

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// kinds are the options of each kind of client, and what makes settings of them. The options are
// those of a client that has only addresses.
var kinds = []struct {
	options  any
	settings func(any) (pool.Config, error)
}{
	{redis.Options{Network: "tcp", Addr: "127.0.0.1:7001"}, func(o any) (pool.Config, error) {
		c := redis.NewClient(&redis.Options{})
		defer c.Close()
		with := o.(redis.Options)
		if with.Dialer == nil {
			with.Dialer = c.Options().Dialer // as every client has
		}
		return serverConfig(with)
	}},
	{redis.ClusterOptions{Addrs: []string{"127.0.0.1:7001"}}, func(o any) (pool.Config, error) {
		with := o.(redis.ClusterOptions)
		if with.NewClient == nil {
			with.NewClient = redis.NewClient // as every client has
		}
		return clusterConfig(with)
	}},
	{redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"127.0.0.1:26379"}}, func(o any) (pool.Config, error) {
		return failoverConfig(o.(redis.FailoverOptions))
	}},
}

// A new version of go-redis that adds an option has to fail here: its treatment must be
// decided.
func TestEveryOptionOfGoRedisHasATreatment(t *testing.T) {
	for _, kind := range kinds {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(kind.options)) {
			if f.IsExported() {
				assert.NotZero(t, treatments[f.Name].use, "%v.%s", reflect.TypeOf(kind.options), f.Name)
			}
		}
	}
	for name, of := range treatments {
		assert.Equal(t, of.use == refused, of.why != "", "%s: only a refusal needs a reason", name)
	}
}

func TestAnOptionHasTheEffectThatTheTableStates(t *testing.T) {
	for _, kind := range kinds {
		plain, err := kind.settings(kind.options)
		require.NoError(t, err)
		for _, f := range reflect.VisibleFields(reflect.TypeOf(kind.options)) {
			if !f.IsExported() {
				continue
			}
			t.Run(fmt.Sprintf("%T.%s", kind.options, f.Name), func(t *testing.T) {
				options := reflect.New(reflect.TypeOf(kind.options)).Elem()
				options.Set(reflect.ValueOf(kind.options))
				// A user without a password is not sent.
				for _, password := range []string{"Password", "SentinelPassword"} {
					if strings.TrimSuffix(password, "Password")+"Username" == f.Name {
						options.FieldByName(password).SetString("other")
					}
				}
				value, ok := example(f.Type)
				require.True(t, ok, "no example of a %v", f.Type)
				options.FieldByName(f.Name).Set(value)
				cfg, err := kind.settings(options.Interface())
				switch treatments[f.Name].use {
				case taken:
					require.NoError(t, err)
					require.NotEqual(t, show(plain), show(cfg))
				case ignored:
					require.NoError(t, err)
					require.Equal(t, show(plain), show(cfg))
				case refused:
					require.ErrorContains(t, err, f.Name+" is set")
					require.ErrorContains(t, err, "127.0.0.1:")
				}
			})
		}
	}
}

func TestOneErrorNamesAllRefusedOptions(t *testing.T) {
	c := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:7001", Password: "secret", Limiter: limiter{}, OnConnect: func(context.Context, *redis.Conn) error { return nil },
	})
	defer c.Close()
	_, err := Config(c)
	require.EqualError(t, err, "goredisnodes: the client of redis://127.0.0.1:7001/0: "+
		"OnConnect is set, but a node does not call it; Limiter is set, but a node has no limiter")
}

// known replaces the table of options for the test.
func known(t *testing.T, names map[string]treatment) {
	t.Helper()
	before := treatments
	t.Cleanup(func() { treatments = before })
	treatments = names
}

// defaulted are options that go-redis sets by default, and that are not numbers.
var defaulted = map[reflect.Type][]string{
	reflect.TypeFor[redis.Options]():        {"NodeAddress", "PushNotificationProcessor", "MaintNotificationsConfig"},
	reflect.TypeFor[redis.ClusterOptions](): {"NewClient", "ShardPicker", "MaintNotificationsConfig"},
}

// To a table without an option, that option is one of a newer go-redis.
func TestAnOptionOfANewerGoRedisIsRefusedIfItIsSet(t *testing.T) {
	for _, kind := range kinds {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(kind.options)) {
			value, ok := example(f.Type)
			if !f.IsExported() || !ok || treatments[f.Name].use == taken {
				continue
			}
			t.Run(fmt.Sprintf("%T.%s", kind.options, f.Name), func(t *testing.T) {
				older := maps.Clone(treatments)
				delete(older, f.Name)
				known(t, older)
				_, err := kind.settings(kind.options)
				require.NoError(t, err, "it is not set")
				options := reflect.New(reflect.TypeOf(kind.options)).Elem()
				options.Set(reflect.ValueOf(kind.options))
				options.FieldByName(f.Name).Set(value)
				_, err = kind.settings(options.Interface())
				if value.CanInt() || value.CanUint() || slices.Contains(defaulted[reflect.TypeOf(kind.options)], f.Name) {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, f.Name+" is set, but this version of goredisnodes does not know it")
				}
			})
		}
	}
}

// Whatever go-redis sets by itself in options that this version does not know, a client without
// such options is accepted.
func TestDefaultsOfANewerGoRedisAreNotRefused(t *testing.T) {
	single := redis.NewClient(&redis.Options{Addr: "127.0.0.1:7001", PoolSize: 7, ReadTimeout: -1, MaxRetries: -1})
	defer single.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:7001"}, PoolSize: 7, ReadTimeout: -1})
	defer cluster.Close()
	known(t, nil)
	for _, c := range []redis.UniversalClient{single, cluster} {
		_, err := Config(c)
		require.NoError(t, err, "%T", c)
	}
}

// example returns a value of an option's type that is not zero.
func example(of reflect.Type) (_ reflect.Value, ok bool) {
	for _, v := range []any{
		"example", 7, 7 * time.Second, true, &tls.Config{ServerName: "example"},
		[]string{"127.0.0.1:9999"},
		limiter{},
		streaming{},
		redis.NewPushNotificationProcessor(), redis.NewLocalCache(redis.CacheConfig{}),
		picker{},
	} {
		if reflect.TypeOf(v).AssignableTo(of) {
			return reflect.ValueOf(v), true
		}
	}
	switch of.Kind() {
	case reflect.Func:
		return reflect.MakeFunc(of, nil), true // not called
	case reflect.Pointer:
		return reflect.New(of.Elem()), true
	case reflect.Uint8, reflect.Int:
		return reflect.ValueOf(1).Convert(of), true
	}
	return reflect.Value{}, false
}

// show returns a Config as text, with its password, and with which functions are set.
func show(cfg pool.Config) string {
	var text strings.Builder
	behind, _ := cfg.Kind.(*sentinel.Config)
	members, _ := cfg.Kind.(*cluster.Config)
	for _, v := range []any{cfg, *orZero(behind), *orZero(members)} {
		for i := range reflect.ValueOf(v).NumField() {
			f := reflect.ValueOf(v).Field(i)
			switch f.Kind() {
			case reflect.Func, reflect.Pointer, reflect.Interface:
				fmt.Fprintln(&text, reflect.TypeOf(v).Field(i).Name, !f.IsNil())
			default:
				fmt.Fprintln(&text, reflect.TypeOf(v).Field(i).Name, f)
			}
		}
	}
	return text.String()
}

func orZero[V any](v *V) *V {
	if v == nil {
		return new(V)
	}
	return v
}

type limiter struct{}

func (limiter) Allow() error       { return nil }
func (limiter) ReportResult(error) {}

type streaming struct{}

func (streaming) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return nil, nil, nil
}

type picker struct{}

func (picker) Next(int) int { return 0 }
func TestTheReadmeNamesTheOptions(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for name, of := range treatments {
		if of.use != ignored {
			assert.Contains(t, string(text), "`"+name+"`")
		}
	}
}
