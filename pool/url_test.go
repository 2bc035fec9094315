package pool

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

func TestAURLIsReadByTheRedisConvention(t *testing.T) {
	for raw, want := range map[string]Config{
		"redis://h":                       {Address: "h:6379"},
		"redis://h/":                      {Address: "h:6379"},
		"redis://h:7000/3":                {Address: "h:7000", Database: 3},
		"REDIS://h":                       {Address: "h:6379"},
		"redis://[::1]":                   {Address: "[::1]:6379"},
		"redis://[::1]:7000/1":            {Address: "[::1]:7000", Database: 1},
		"redis://[fe80::1%25eth0]":        {Address: "[fe80::1%eth0]:6379"},
		"redis://:secret@h":               {Address: "h:6379", Password: "secret"},
		"redis://user:secret@h":           {Address: "h:6379", Username: "user", Password: "secret"},
		"redis://user:@h":                 {Address: "h:6379", Username: "user"},
		"redis://@h":                      {Address: "h:6379"},
		"redis://u%40x:%2F%3A%40%23%20@h": {Address: "h:6379", Username: "u@x", Password: "/:@# "},
		"redis://:a@b@h":                  {Address: "h:6379", Password: "a@b"},
		"redis://h?db=5":                  {Address: "h:6379", Database: 5},
		"redis://h/5?db=5":                {Address: "h:6379", Database: 5},
		"redis://h?name=n%201&client_name=me&dial_timeout=1.5s&hard_timeout=20ms": {
			Address: "h:6379", Name: "n 1", ClientName: "me",
			DialTimeout: 1500 * time.Millisecond, HardTimeout: 20 * time.Millisecond,
		},
		"redis://h?proxied=true":                 {Address: "h:6379", Proxied: true},
		"redis://h?proxied=false":                {Address: "h:6379"},
		"unix:///run/redis.sock":                 {Network: "unix", Address: "/run/redis.sock"},
		"unix://u:p@/run/a%20b.sock?db=2":        {Network: "unix", Address: "/run/a b.sock", Username: "u", Password: "p", Database: 2},
		"unix:///run/redis.sock?dial_timeout=1s": {Network: "unix", Address: "/run/redis.sock", DialTimeout: time.Second},
	} {
		c, err := ParseURL(raw)
		require.NoError(t, err, raw)
		require.Nil(t, c.TLS, raw)
		require.Equal(t, want, c, raw)
	}
}

func TestAURLOfSentinelsNamesThemAllAndTheirMaster(t *testing.T) {
	for raw, want := range map[string]Config{
		"redis+sentinel://a/m":              {Kind: &sentinel.Config{Master: "m", Addresses: []string{"a:26379"}}},
		"redis+sentinel://a,b:7000,[::1]/m": {Kind: &sentinel.Config{Master: "m", Addresses: []string{"a:26379", "b:7000", "[::1]:26379"}}},
		"redis+sentinel://[::1]:1,[::2]:2/m/3?name=n": {
			Name: "n", Database: 3, Kind: &sentinel.Config{Master: "m", Addresses: []string{"[::1]:1", "[::2]:2"}},
		},
		"redis+sentinel://u:p,x%2F@a,b/m?db=3&max_age=2s&sentinel_user=su&sentinel_password=sp%40": {
			Username: "u", Password: "p,x/", Database: 3,
			Kind: &sentinel.Config{Master: "m", Addresses: []string{"a:26379", "b:26379"}, MaxAge: 2 * time.Second, Username: "su", Password: "sp@"},
		},
	} {
		c, err := ParseURL(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, c, raw)
	}
	c, err := ParseURL("rediss+sentinel://a/m")
	require.NoError(t, err)
	require.NotNil(t, c.TLS)
	require.NotNil(t, c.Kind.(*sentinel.Config).TLS)
}

func TestAURLOfAClusterNamesSomeOfItsMembers(t *testing.T) {
	for raw, want := range map[string]Config{
		"redis+cluster://a":                  {Kind: &cluster.Config{Addresses: []string{"a:6379"}}},
		"redis+cluster://u:p@a,b:7000,[::1]": {Kind: &cluster.Config{Addresses: []string{"a:6379", "b:7000", "[::1]:6379"}}, Username: "u", Password: "p"},
		"redis+cluster://a,b/0?name=n&db=0":  {Kind: &cluster.Config{Addresses: []string{"a:6379", "b:6379"}}, Name: "n"},
	} {
		c, err := ParseURL(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, c, raw)
	}
	c, err := ParseURL("rediss+cluster://b:1,a:1")
	require.NoError(t, err)
	require.NotNil(t, c.TLS)
	require.Equal(t, "cluster@a:1", c.DefaultName())
	require.Equal(t, "rediss+cluster://b:1,a:1", c.String())
}

func TestRedissVerifiesTheHost(t *testing.T) {
	c, err := ParseURL("rediss://h:7000/3")
	require.NoError(t, err)
	cfg, err := c.TLS(t.Context())
	require.NoError(t, err)
	require.False(t, cfg.InsecureSkipVerify)
	require.Empty(t, cfg.ServerName) // the dial fills it in
}

func TestAWrongURLIsRefusedWithAReason(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                      "empty URL: the variable that it comes from may be unset",
		" ":                                     "empty URL: the variable that it comes from may be unset",
		"redis://h?name=r%3A%2F%2Fhunter2%40h":  `Name contains "@" or "://"`,
		"http://h":                              "the scheme must be redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster",
		"redis:h":                               "no scheme: it begins with redis://",
		"h":                                     "no scheme: it begins with redis://",
		"h:6379":                                "no scheme: it begins with redis://",
		"127.0.0.1:7001":                        "no scheme: it begins with redis://, as in redis://127.0.0.1:7001, or with rediss:// (TLS)",
		"[::1]:6379":                            "as in redis://[::1]:6379,",
		"u:hunter2@h":                           "as in redis://host:6379,",
		"hunter2:1":                             "as in redis://host:6379,",
		"redis://":                              "no host",
		"redis://:6379":                         "no host",
		"redis://h:0":                           "the port must be 1 to 65535",
		"redis://h:65536":                       "the port must be 1 to 65535",
		"redis://h:port":                        "must be redis://",
		"redis://h h":                           "invalid character in the host",
		"redis://h#f":                           "no fragment",
		"redis+sentinel://a,b/m#f":              "no fragment",
		"redis+cluster://a,b#f":                 "no fragment",
		"redis://user@h":                        "a user without a password",
		"redis://:%zz@h":                        "% is not followed by two hexadecimal digits",
		"redis://h/x":                           "the database must be 0 to 2147483647",
		"redis://h/-1":                          "the database must be 0 to 2147483647",
		"redis://h/1/2":                         "the database must be 0 to 2147483647",
		"redis://h/2147483648":                  "the database must be 0 to 2147483647",
		"redis://h?db=":                         "the setting db is empty",
		"redis://h/1?db=2":                      "the path and the setting db name different databases",
		"redis://h?db=1&db=1":                   `the setting "db" is given twice`,
		"redis://h?databse=1":                   `unknown setting "databse"`,
		"redis://h?" + strings.Repeat("a", 40):  "unknown setting (name not shown)",
		"redis://h?db=%zz":                      "the settings must be percent-encoded",
		"redis://h?dial_timeout=5":              "the setting dial_timeout must be a duration of 1ms to 5m0s, as in 1.5s",
		"redis://h?dial_timeout=0s":             "the setting dial_timeout must be a duration of 1ms to 5m0s, as in 1.5s",
		"redis://h?hard_timeout=1h":             "HardTimeout is 1h0m0s, must be 1ms to 5m0s",
		"redis://h?proxied=1":                   "the setting proxied must be true or false",
		"redis+sentinel://a,b,c/m?proxied=true": "a node is Proxied or follows Sentinels, not both",
		"redis+cluster://a,b,c?proxied=true":    "a node is Proxied or a Cluster, not both",
		"redis://h?connections=2":               `unknown setting "connections"`,
		"redis://h?client_name=a%20b":           "ClientName contains an invalid character",
		"unix://run/redis.sock":                 "a unix URL needs an absolute path and no host",
		"unix://":                               "a unix URL needs an absolute path and no host",
		"redis://a,b":                           "several hosts in one URL",
		"redis+sentinel://a,b":                  "the Sentinels' name for the master is missing",
		"redis+sentinel://a,b/":                 "the Sentinels' name for the master is missing",
		"redis+sentinel://a,/m":                 "no host",
		"redis+sentinel://a,b:0/m":              "the port must be 1 to 65535",
		"redis+sentinel://a,b:x/m":              "invalid host in list",
		"redis+sentinel://a,a:26379/m":          "a Sentinel is listed twice",
		"redis+sentinel://a/m/x":                "the database must be 0 to 2147483647",
		"redis+sentinel://a/m/1?db=2":           "the path and the setting db name different databases",
		"redis+sentinel://a/m?max_age=1ms":      "sentinel.Config.MaxAge is 1ms",
		"redis+sentinel://a/m?setle=1s":         `unknown setting "setle"`,
		"redis+cluster://a/1":                   "a Cluster has only database 0",
		"redis+cluster://a,b?db=1":              "a Cluster has only database 0",
		"redis+cluster://a,a:6379":              "a member of the Cluster is listed twice",
		"redis+cluster://a,b:x":                 "invalid host in list",
		"redis+cluster://":                      "no host",
		"redis+cluster://a?max_age=1s":          `unknown setting "max_age"`,
		"redis+cluster://u:12/hunter2@h,i":      "@ after the host",
		"redis://h?max_age=1s":                  `unknown setting "max_age"`,
		"redis+sentinel://u:12/hunter2@h,i/m":   "@ after the host",
		"redis+sentinel://u:hunter2,@h/,i@m":    "@ after the host",
		"redis://u:12/hunter2@h":                "@ after the host",
		"redis://u:12?hunter2@h":                "@ after the host",
		"redis://u:12#hunter2@h":                "@ after the host",
		"redis:u:hunter2@h":                     "no scheme: it begins with redis://",
	} {
		_, err := ParseURL(raw)
		require.ErrorContains(t, err, "pool: the URL of a master: ", raw)
		require.ErrorContains(t, err, want, raw)
		require.NotContains(t, err.Error(), "hunter2", raw)
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("redis", "user", "", "", "h:6379/3?db=3")
	f.Add("rediss", "", "1/", "%zz", "[::1]?client_name=x")
	f.Add("unix", "u", "?", "#", "/run/redis.sock?x=%40")
	f.Add("redis+sentinel", "u", ",", ",", "h,i:1/m/3?max_age=1s&sentinel_password=x")
	f.Add("redis:opaque", "@", "@", "@", "h?name=9&name=9")
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		const secret = "hunter2"
		raw := scheme + "://" + user + ":" + before + secret + after + "@" + rest
		if strings.Contains(scheme+user+rest, secret) {
			t.Skip("shown for another reason")
		}
		c, err := ParseURL(raw)
		if err != nil {
			require.NotContains(t, err.Error(), secret)
			return
		}
		require.Contains(t, c.Password, secret)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", c, c, c), secret)
		if c.Network != "unix" && c.Kind == nil {
			roundTrips(t, raw, c)
		}
	})
}

// roundTrips checks that the host is the one that package url reads, and that the printed config
// leads to the same server.
func roundTrips(t *testing.T, raw string, c Config) {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(c.Address)
	require.NoError(t, err)
	require.Equal(t, u.Hostname(), host)
	again, err := ParseURL("redis://" + net.JoinHostPort(url.PathEscape(host), port))
	if err == nil { // a host of unusual bytes has no other spelling
		require.Equal(t, c.Address, again.Address)
	}
}

// Without the import nothing in the program reads such a URL.
func TestAURLOfAKindThatIsNotImportedSaysWhatToImport(t *testing.T) {
	for scheme, folder := range map[string]string{"sentinel": "pool/sentinel", "cluster": "pool/cluster"} {
		of := node.Schemes["redis+"+scheme]
		delete(node.Schemes, "redis+"+scheme)
		for _, plus := range []string{"redis+", "rediss+"} {
			_, err := ParseURL(plus + scheme + "://a,b/m")
			require.EqualError(t, err, "pool: the URL of a master: the scheme redis+"+scheme+
				` needs import _ "github.com/quorumlock/go-redlock/`+folder+`"`)
		}
		node.Schemes["redis+"+scheme] = of
	}
}
