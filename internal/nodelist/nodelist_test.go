package nodelist

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

func TestAListOfURLsIsPartedBetweenThemAndNotWithin(t *testing.T) {
	for list, want := range map[string][]string{
		"redis://a":                        {"redis://a"},
		"redis://a, redis://b":             {"redis://a", "redis://b"},
		"redis+sentinel://a,b,c/m":         {"redis+sentinel://a,b,c/m"},
		"redis+sentinel://a,b/m,redis://c": {"redis+sentinel://a,b/m", "redis://c"},
		"redis://c,redis+sentinel://a,b/m": {"redis://c", "redis+sentinel://a,b/m"},
		"redis://a,b":                      {"redis://a", "b"}, // which is an error later
		"a,redis://b":                      {"a", "redis://b"},
		"redis://a,,redis://b":             {"redis://a", "", "redis://b"},
		"redis+sentinel://a/m,":            {"redis+sentinel://a/m", ""},
		"redis+cluster://a,b,redis://c":    {"redis+cluster://a,b", "redis://c"},
	} {
		require.Equal(t, want, Split(list), list)
	}
}

func TestANodeIsListedTwiceUnderOneNameOrWithOneServer(t *testing.T) {
	a, b := pool.Config{Address: "a:1"}, pool.Config{Address: "b:1", Database: 2}
	named := func(c pool.Config, name string) pool.Config {
		c.Name = name
		return c
	}
	behind := pool.Config{Kind: &sentinel.Config{Master: "m", Addresses: []string{"b:1", "a:1"}}}
	whole := pool.Config{Kind: &cluster.Config{Addresses: []string{"b:1", "a:1"}}}
	names, err := Names([]pool.Config{named(a, "x"), b, behind, whole})
	require.NoError(t, err)
	require.Equal(t, []string{"x", "b:1/2", "m@a:1/0", "cluster@a:1"}, names)
	for want, list := range map[string][]pool.Config{
		"node a:1/0 is listed twice":       {a, a},
		"node y is listed twice":           {named(a, "x"), named(a, "y")},
		"node x is listed twice":           {named(a, "x"), named(b, "x")},
		"node cluster@a:1 is listed twice": {whole, whole},
	} {
		_, err := Names(list)
		require.EqualError(t, err, want)
	}
}

func TestAListOfTooManyNodesIsRefused(t *testing.T) {
	list := make([]pool.Config, 65)
	for i := range list {
		list[i].Address = fmt.Sprintf("a:%d", i+1)
	}
	_, err := Names(list)
	require.EqualError(t, err, "65 nodes, at most 64")
	_, err = Names(list[:64])
	require.NoError(t, err)
}
