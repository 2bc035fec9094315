package fakeredis

import "time"

// These methods access database 0 directly and not by the network, even while the master is frozen
// or stopped. They come before or after a command or a script, and not in the middle.

// Keys returns all keys in order.
func (m *Master) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data().Keys()
}

// Get returns the value of a string key. It returns false if the key does not exist or has another
// type.
func (m *Master) Get(key string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.data().Get(key)
	return v, err == nil
}

// TTL returns the remaining TTL of a key. It returns 0 for a key without expiry and for a missing
// one.
func (m *Master) TTL(key string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data().TTL(key)
}

// Set writes a string key and replaces a key of any type. A ttl of 0 means no expiry.
func (m *Master) Set(key, value string, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.data()
	r.Del(key)
	_ = r.Set(key, value) // fails for other types only
	if ttl > 0 {
		r.SetTTL(key, ttl)
	}
}

// Del deletes a key, and reports whether it existed.
func (m *Master) Del(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.observer != nil {
		m.observer.Deleted(key)
	}
	return m.data().Del(key)
}

// PushList makes the key a list, which is not a lock.
func (m *Master) PushList(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.data()
	r.Del(key)
	_, _ = r.Push(key, "element") // fails for other types only
}

// FlushAll deletes all keys of all databases.
func (m *Master) FlushAll() { m.replaceData(nil) }

func (m *Master) exists(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data().Exists(key)
}

// LoseScripts removes all scripts, and from now on also each new one that SCRIPT LOAD loads, as if another client flushed them at once.
// EVAL loads a script for good.
func (m *Master) LoseScripts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts, m.losesScripts = nil, true
}

// FlushScripts removes all scripts. The next EVALSHA is answered with NOSCRIPT.
func (m *Master) FlushScripts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts = nil
}
