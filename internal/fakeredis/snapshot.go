package fakeredis

import "time"

// Snapshot is a master's strings at an instant, like the content of a log that is written from time
// to time, or of a replica that lags behind.
type Snapshot struct {
	keys map[string]Saved
}

// Saved is a string key.
type Saved struct {
	Value   string
	Expires time.Time // by the master's clock; zero: never
}

// Key returns a key of the snapshot, or an empty one.
func (s *Snapshot) Key(key string) Saved { return s.keys[key] }

// Snapshot takes a snapshot.
func (m *Master) Snapshot() *Snapshot {
	s := &Snapshot{keys: map[string]Saved{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.data()
	for _, key := range r.Keys() {
		v, err := r.Get(key)
		if err != nil {
			continue // of another type
		}
		k := Saved{Value: v}
		if ttl := r.TTL(key); ttl > 0 {
			k.Expires = m.clockNow().Add(ttl)
		}
		s.keys[key] = k
	}
	return s
}

// RestartWith is Restart with the keys of a snapshot, which expire when they would have expired without it.
func (m *Master) RestartWith(s *Snapshot) error {
	m.Stop()
	m.replaceData(s.keys)
	return m.boot()
}

// replaceData replaces all data by these keys, without those that have expired.
func (m *Master) replaceData(keys map[string]Saved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.data()
	r.FlushAll()
	for key, k := range keys {
		left := k.Expires.Sub(m.clockNow())
		if !k.Expires.IsZero() && left <= 0 {
			continue
		}
		_ = r.Set(key, k.Value) // fails for other types only
		if !k.Expires.IsZero() {
			r.SetTTL(key, left)
		}
	}
	if m.observer != nil {
		m.observer.DataReplaced(keys)
	}
}
