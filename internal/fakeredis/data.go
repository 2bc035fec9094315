package fakeredis

import (
	"bufio"
	"io"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// These methods access database 0 directly and not by the network, even while the master is frozen
// or stopped.

// Keys returns all keys in order.
func (m *Master) Keys() []string { return m.data().Keys() }

// Get returns the value of a string key. It returns false if the key does not exist or has another
// type.
func (m *Master) Get(key string) (string, bool) {
	v, err := m.data().Get(key)
	return v, err == nil
}

// TTL returns the remaining TTL of a key. It returns 0 for a key without expiry and for a missing
// one.
func (m *Master) TTL(key string) time.Duration { return m.data().TTL(key) }

// Set writes a string key and replaces a key of any type. A ttl of 0 means no expiry.
func (m *Master) Set(key, value string, ttl time.Duration) {
	m.data().Del(key)
	_ = m.redis.Set(key, value) // fails for other types only
	if ttl > 0 {
		m.redis.SetTTL(key, ttl)
	}
}

// Del deletes a key, and reports whether it existed.
func (m *Master) Del(key string) bool { return m.data().Del(key) }

// PushList makes the key a list, which is not a lock.
func (m *Master) PushList(key string) {
	m.redis.Del(key)
	_, _ = m.redis.Push(key, "element") // fails for other types only
}

// FlushAll deletes all keys of all databases.
func (m *Master) FlushAll() { m.redis.FlushAll() }

// FlushScripts removes all scripts. The next EVALSHA is answered with NOSCRIPT.
func (m *Master) FlushScripts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts = nil
	p := server.NewPeer(bufio.NewWriter(io.Discard))
	for user, password := range m.script.users {
		m.redis.Server().Dispatch(p, []string{"AUTH", user, password})
	}
	m.redis.Server().Dispatch(p, []string{"SCRIPT", "FLUSH"})
}
