package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/embedded"
)

// masters starts three, and checks at the end of the test that no lock is left.
func masters(t *testing.T) []*embedded.Master {
	t.Helper()
	var all []*embedded.Master
	for _, name := range []string{"a", "b", "c"} {
		m, err := embedded.Start(name)
		require.NoError(t, err)
		t.Cleanup(m.Close)
		all = append(all, m)
	}
	t.Cleanup(func() {
		for _, m := range all {
			require.Empty(t, locks(m), "a key is left on %s", m.Name())
		}
	})
	return all
}

// locks lists the keys of all locks on the masters; fence counters outlive them.
func locks(all ...*embedded.Master) (keys []string) {
	for _, m := range all {
		for _, key := range m.Keys() {
			if !strings.HasPrefix(key, "redlock:") {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func nodesOf(all []*embedded.Master) string {
	var urls []string
	for _, m := range all {
		urls = append(urls, m.URL()+"?name="+m.Name())
	}
	return strings.Join(urls, ",")
}

// holdAll makes somebody hold a name on all masters.
func holdAll(all []*embedded.Master, name, token string, ttl time.Duration) {
	for _, m := range all {
		m.Set(name, token, ttl)
	}
}

func setFree(all []*embedded.Master, name string) {
	for _, m := range all {
		m.Del(name)
	}
}
