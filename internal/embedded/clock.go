package embedded

import (
	"time"

	"github.com/alicebob/miniredis/v2"
)

// SetClock sets the master's clock to be that much ahead of everybody else's, or behind
// where it is negative. TIME answers by it and TTLs are counted by it, so that a step
// forward makes keys expire, as on a real master; a step back does not lengthen them
// here. It goes on at everybody's rate.
func (m *Master) SetClock(ahead time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell()
	_ = m.redis.Keys() // what is due so far expires by the clock so far
	m.ahead, m.set = ahead, true
	m.tell()
	_ = m.redis.Keys()
}

// tell tells miniredis the time where that is not everybody's; under m.mu. miniredis
// can be told an instant only, so that every command begins by it.
func (m *Master) tell() {
	if m.set {
		m.redis.SetTime(now().Add(m.ahead))
	}
}

// data is the database at the present time.
func (m *Master) data() *miniredis.Miniredis {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell()
	return m.redis
}
