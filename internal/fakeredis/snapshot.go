package fakeredis

import "time"

// Snapshot is a master's strings at an instant, like the content of a log that is written from time
// to time, or of a replica that lags behind.
type Snapshot struct {
	taken time.Time
	keys  map[string]savedKey
}

type savedKey struct {
	value string
	ttl   time.Duration
}

// Snapshot takes a snapshot.
func (m *Master) Snapshot() *Snapshot {
	s := &Snapshot{taken: now(), keys: map[string]savedKey{}}
	for _, key := range m.Keys() {
		if v, ok := m.Get(key); ok {
			s.keys[key] = savedKey{v, m.TTL(key)}
		}
	}
	return s
}

// RestartWith is Restart with the keys of a snapshot. Their TTLs have continued since it was taken.
func (m *Master) RestartWith(s *Snapshot) error {
	m.Stop()
	m.redis.FlushAll()
	passed := now().Sub(s.taken)
	for key, k := range s.keys {
		switch left := k.ttl - passed; {
		case k.ttl == 0:
			m.Set(key, k.value, 0)
		case left > 0:
			m.Set(key, k.value, left)
		}
	}
	return m.Restart(true)
}
