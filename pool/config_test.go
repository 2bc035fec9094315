package pool

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

func TestZeroSettingsMeanTheDefaults(t *testing.T) {
	c, err := Config{Address: "h:6379"}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, Config{
		Name: "h:6379/0", Network: "tcp", Address: "h:6379", ClientName: "go-redlock",
		DialTimeout: 5 * time.Second, HardTimeout: 5 * time.Second,
		RedialMin: 10 * time.Millisecond, RedialMax: 500 * time.Millisecond,
		Queue: 16384, Clock: clock.System(),
	}, c)
}

func TestOneBoundOfTheRedialPauseMovesTheOtherOnesDefault(t *testing.T) {
	c, err := Config{Address: "h:1", RedialMin: time.Second}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, time.Second, c.RedialMax)

	c, err = Config{Address: "h:1", RedialMax: 5 * time.Millisecond}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, 5*time.Millisecond, c.RedialMin)
}

func TestANodeIsNamedAfterItsAddressAndDatabase(t *testing.T) {
	for want, c := range map[string]Config{
		"h:6379/3":       {Address: "h:6379", Database: 3},
		"/run/redis.s/0": {Network: "unix", Address: "/run/redis.s"},
		"mine":           {Name: "mine", Address: "h:6379"},
	} {
		c, err := c.withDefaults()
		require.NoError(t, err)
		require.Equal(t, want, c.Name)
	}
}

func TestASettingOutOfItsBoundsIsNamedWithThem(t *testing.T) {
	for want, c := range map[string]Config{
		`Network is "udp", must be tcp or unix`:                    {Network: "udp", Address: "h:1"},
		`Address is "", must be host:port or the path of a socket`: {},
		`Address is "h", must be host:port`:                        {Address: "h"},
		`Address is ":6379", must be host:port`:                    {Address: ":6379"},
		`Name contains an invalid character`:                       {Address: "h:1", Name: "a\nb"},
		`Name's length is 256, must be 1 to 255`:                   {Address: "h:1", Name: string(bytes.Repeat([]byte("x"), 256))},
		`ClientName contains an invalid character`:                 {Address: "h:1", ClientName: "a b"},
		`ClientName's length is 129, must be 1 to 128`:             {Address: "h:1", ClientName: string(bytes.Repeat([]byte("x"), 129))},
		`Database is -1, must be 0 to 2147483647`:                  {Address: "h:1", Database: -1},
		`DialTimeout is -1s, must be 1ms to 5m0s`:                  {Address: "h:1", DialTimeout: -time.Second},
		`HardTimeout is 1µs, must be 1ms to 5m0s`:                  {Address: "h:1", HardTimeout: time.Microsecond},
		`RedialMin is 6m0s, must be 1ms to 5m0s`:                   {Address: "h:1", RedialMin: 6 * time.Minute},
		`RedialMax is 1s, must be 2s to 5m0s`:                      {Address: "h:1", RedialMin: 2 * time.Second, RedialMax: time.Second},
		`Queue is -1, must be 1 to 1048576`:                        {Address: "h:1", Queue: -1},
	} {
		_, err := c.withDefaults()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "pool: node ")
	}
}

func TestAllThatIsWrongIsSaidAtOnceOnOneLine(t *testing.T) {
	_, err := Config{Name: "n", Address: "h:1", Database: -1, Queue: -1}.withDefaults()
	require.EqualError(t, err, `pool: node "n": Database is -1, must be 0 to 2147483647; Queue is -1, must be 1 to 1048576`)
}

func TestADialFunctionMayTakeAnyAddress(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	_, err := Config{Address: "tunnel", Dial: dial}.withDefaults()
	require.NoError(t, err)
}

func TestNoRenderingOfAConfigShowsThePassword(t *testing.T) {
	c := Config{Address: "h:6379", Username: "u", Password: "hunter2", Database: 2}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("dialling", "config", c)
	slog.New(slog.NewTextHandler(&log, nil)).Info("dialling", "config", c)
	for _, shown := range []string{
		c.String(), fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q", c, c, c, c), fmt.Sprintf("%+v", &c),
		fmt.Sprintf("%+v", []Config{c}), log.String(),
	} {
		require.NotContains(t, shown, "hunter2")
		require.Contains(t, shown, "redis://u@h:6379/2")
	}
	c.Queue = -1
	_, err := c.withDefaults()
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

// A URL in place of an address or a name is refused. The error must not quote it, because it may
// have a password.
func TestAURLIsNoAddressAndNoNameAndIsNotShown(t *testing.T) {
	for _, bad := range []string{"redis://:hunter2@h:1", ":hunter2@h:1", "hunter2@h", "redis://hunter2", "redis://h?sentinel_password=hunter2"} {
		for what, c := range map[string]Config{
			"Name":                {Name: bad, Address: "h:1"},
			"Address":             {Address: bad},
			"Address of a socket": {Address: bad, Network: "unix"},
			"a named Address":     {Address: bad, Name: "n"},
			"a dialled Address":   {Address: bad, Dial: dialNothing},
			"Cluster":             {Kind: &cluster.Config{Addresses: []string{"h:1", bad}}},
			"Address of Cluster":  {Kind: &cluster.Config{Addresses: []string{"h:1"}}, Address: bad},
			"Sentinels.Addresses": {Kind: &sentinel.Config{Master: "m", Addresses: []string{"h:1", bad}}},
			"Sentinels.Master":    {Kind: &sentinel.Config{Master: bad, Addresses: []string{"h:1"}}},
			"Address of Sentinel": {Kind: &sentinel.Config{Master: "m", Addresses: []string{"h:1"}}, Address: bad},
		} {
			c.Queue = -1 // so that the error has all that is wrong
			_, err := Open(c)
			require.ErrorIs(t, err, node.ErrIsURL, what)
			require.ErrorContains(t, err, `contains "@" or "://"`, what)
			require.ErrorContains(t, err, "Queue is -1", what)
			for _, shown := range []string{err.Error(), c.String(), fmt.Sprintf("%#v %+v", c, c), fmt.Sprint(c.Kind)} {
				require.NotContains(t, shown, "hunter2", what)
			}
		}
		_, err := Wrap(nil, Config{Name: bad})
		require.ErrorIs(t, err, node.ErrIsURL)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestNamesThatTheLibraryMakesAndPathsMayContainAnAt(t *testing.T) {
	for _, c := range []Config{
		{Network: "unix", Address: "/run/redis@6379.sock"},
		{Network: "unix", Address: "@/run/redis"},
		{Network: "unix", Address: "@redis"},
		{Kind: &cluster.Config{Addresses: []string{"h:1"}}, Name: "cluster@h:1"},
		{Kind: &sentinel.Config{Master: "m", Addresses: []string{"h:1"}}, Name: "m@h:1/0"},
	} {
		unnamed := c
		unnamed.Name = ""
		for _, c := range []Config{c, unnamed} {
			_, err := c.withDefaults()
			require.NoError(t, err)
			require.NotContains(t, c.String(), "not shown")
		}
	}
}

func TestNoRenderingOfANodeShowsThePassword(t *testing.T) {
	const password = "hunter2"
	for what, c := range map[string]Config{
		"single": {Address: "h:1"}, "cluster": {Kind: &cluster.Config{Addresses: []string{"h:1"}}},
		"Sentinels": {Kind: &sentinel.Config{Master: "m", Addresses: []string{"h:1"}, Password: password}},
	} {
		c.Username, c.Password, c.Dial = "u", password, dialNothing
		n, err := Open(c)
		require.NoError(t, err)
		defer n.Close()
		wrapped, err := Wrap(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, net.ErrClosed }}, Config{Name: "n"})
		require.NoError(t, err)
		defer wrapped.Close()
		require.Equal(t, `pool.Node(n)`, wrapped.GoString())
		require.Equal(t, "pool.Node("+n.String()+")", n.GoString())
		for _, v := range []any{n, c, &c, c.Kind, struct{ Node *Node }{n}, struct{ node *Node }{n}} {
			for _, verb := range []string{"%v", "%+v", "%#v"} {
				require.NotContains(t, fmt.Sprintf(verb, v), password, "%s: %T as %s", what, v, verb)
			}
		}
	}
}

func TestAConfigIsShownAsAURL(t *testing.T) {
	noTLS := func(context.Context) (*tls.Config, error) { return nil, nil }
	require.Equal(t, "rediss://h:1/0", Config{Address: "h:1", TLS: noTLS}.String())
	require.Equal(t, "unix://u@/run/r.sock?db=4", Config{Network: "unix", Address: "/run/r.sock", Username: "u", Database: 4}.String())
}

func TestADefaultNameDoesNotDependOnTheOrderOfAddresses(t *testing.T) {
	behind := func(addresses ...string) Config {
		return Config{Kind: &sentinel.Config{Master: "m", Addresses: addresses}}
	}
	require.Equal(t, "a:1/2", Config{Address: "a:1", Database: 2}.DefaultName())
	require.Equal(t, "m@a:1/0", behind("b:1", "a:1").DefaultName())
	require.Equal(t, "m@/0", behind().DefaultName())
	require.Equal(t, "cluster@a:1", Config{Kind: &cluster.Config{Addresses: []string{"b:1", "a:1"}}}.DefaultName())
}

func dialNothing(context.Context, string, string) (net.Conn, error) { return nil, nil }
