package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// nodes starts three, and checks at the end of the test that no lock is left.
func masters(t *testing.T) []*fakeredis.Master {
	t.Helper()
	var all []*fakeredis.Master
	for _, name := range []string{"a", "b", "c"} {
		m, err := fakeredis.Start(name)
		require.NoError(t, err)
		t.Cleanup(m.Close)
		all = append(all, m)
	}
	t.Cleanup(func() {
		readAll(all...)
		for _, m := range all {
			require.Empty(t, locks(m), "a key is left on %s", m.Name())
		}
	})
	return all
}

// readAll waits until the nodes have read what clients sent before they went. A frozen
// node never has: it is not waited for longer than half a minute.
func readAll(all ...*fakeredis.Master) {
	deadline := time.Now().Add(30 * time.Second)
	for _, m := range all {
		for m.Connections() > 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
}

// locks lists the keys of all locks on the nodes; fence counters outlive them.
func locks(all ...*fakeredis.Master) (keys []string) {
	for _, m := range all {
		for _, key := range m.Keys() {
			if !strings.HasPrefix(key, "redlock:") {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func nodesOf(all []*fakeredis.Master) string {
	var urls []string
	for _, m := range all {
		urls = append(urls, m.URL()+"?name="+m.Name())
	}
	return strings.Join(urls, ",")
}

// holdAll makes somebody hold a name on all nodes.
func holdAll(all []*fakeredis.Master, name, token string, ttl time.Duration) {
	for _, m := range all {
		m.Set(name, token, ttl)
	}
}

// announce publishes a release on each node, until somebody there has heard it.
func announce(t *testing.T, all []*fakeredis.Master, name string) {
	t.Helper()
	for _, m := range all {
		raw, err := m.Dial(t.Context(), "", "")
		require.NoError(t, err)
		c := redis.NewConn(raw, 0, 0)
		require.Eventually(t, func() bool {
			heard, err := redis.Int(c.Do("PUBLISH", "redlock:free:"+name, ""))
			return err == nil && heard > 0
		}, time.Minute, 5*time.Millisecond, "nobody listens on %s", m.Name())
		require.NoError(t, c.Close())
	}
}

func setFree(all []*fakeredis.Master, name string) {
	for _, m := range all {
		m.Del(name)
	}
}
