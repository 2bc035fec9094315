package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

// patience bounds every wait for an event. It is long: eight busy processes on two cores leave little for
// each of the tests, which run in parallel.
const patience = time.Minute

// masters starts three, and checks at the end of the test that no lock is left.
func masters(t *testing.T) []*fakeredis.Master {
	t.Helper()
	var all []*fakeredis.Master
	set := late.Of(t, 3)
	for i, name := range []string{"a", "b", "c"} {
		m, err := fakeredis.Start(name)
		require.NoError(t, err)
		t.Cleanup(m.Close)
		if set.Is(i) {
			m.AcceptLate(set.Next)
		}
		all = append(all, m)
	}
	t.Cleanup(func() {
		allAnswered(t, all...)
		for _, m := range all {
			require.Empty(t, locks(m), "a key is left on %s", m.Name())
		}
	})
	return all
}

// guarded starts nodes whose markers go at the end.
func guarded(t *testing.T) []*fakeredis.Master {
	t.Helper()
	all := masters(t)
	t.Cleanup(func() {
		for _, m := range all {
			m.Del("redlock:guard")
		}
	})
	return all
}

// allAnswered waits until the nodes have executed all that clients sent before they went. A command ends
// when a majority has answered, so the others may be later. All clients must have gone.
func allAnswered(t *testing.T, all ...*fakeredis.Master) {
	t.Helper()
	for _, m := range all {
		eventually(t, m.Name()+" has executed what clients sent", func() bool { return m.Connections() == 0 })
	}
}

// heldEverywhere waits until every node has the key.
func heldEverywhere(t *testing.T, all []*fakeredis.Master, key string) {
	t.Helper()
	for _, m := range all {
		eventually(t, m.Name()+" has the key", func() bool { _, ok := m.Get(key); return ok })
	}
}

// releasedEverywhere waits until no node has a lock's key.
func releasedEverywhere(t *testing.T, all ...*fakeredis.Master) {
	t.Helper()
	eventually(t, "no key is left", func() bool { return len(locks(all...)) == 0 })
}

// eventually waits for what no event tells.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
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

// nodesOf lists the nodes as --nodes does. Their connections last for longer than cli.ColdTimeout without an answer.
func nodesOf(all []*fakeredis.Master) string {
	var urls []string
	for _, m := range all {
		urls = append(urls, m.URL()+"?name="+m.Name()+"&dial_timeout=1m&hard_timeout=1m")
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
