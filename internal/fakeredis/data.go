package fakeredis

import (
	"bufio"
	"io"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// The data is reached past the network, of database 0, and also while the master
// is frozen or stopped.

// Keys lists the keys in order.
func (m *Master) Keys() []string { return m.data().Keys() }

// Get is a string key's value; false where there is none, or of another type.
func (m *Master) Get(key string) (string, bool) {
	v, err := m.data().Get(key)
	return v, err == nil
}

// TTL is what remains; 0 for a key that never expires, and for none.
func (m *Master) TTL(key string) time.Duration { return m.data().TTL(key) }

// Set writes a string key, whatever stood there; a ttl of 0 means for ever.
func (m *Master) Set(key, value string, ttl time.Duration) {
	m.data().Del(key)
	_ = m.redis.Set(key, value) // fails for other types only
	if ttl > 0 {
		m.redis.SetTTL(key, ttl)
	}
}

// Del deletes a key, and says whether it was there.
func (m *Master) Del(key string) bool { return m.data().Del(key) }

// PushList makes the key a list: one that is no lock (docs/dev/hazards.md H44).
func (m *Master) PushList(key string) {
	m.redis.Del(key)
	_, _ = m.redis.Push(key, "element") // fails for other types only
}

// FlushAll deletes all keys of all databases.
func (m *Master) FlushAll() { m.redis.FlushAll() }

// FlushScripts forgets all scripts: the next EVALSHA is answered NOSCRIPT.
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
