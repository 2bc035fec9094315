package fakeredis

import (
	"time"

	"github.com/alicebob/miniredis/v2"
)

// SetClock sets the master's clock to be that much ahead of everybody else's, or behind
// where it is negative. TIME answers by it and TTLs are counted by it, so that a step
// forward makes keys expire, as on a real master; a step back does not lengthen them
// here.
func (m *Master) SetClock(ahead time.Duration) { m.setTime(func() { m.ahead = ahead }) }

// SetRate makes the clock go that many times as fast as everybody else's from now on.
func (m *Master) SetRate(rate float64) { m.setTime(func() { m.gain = rate - 1 }) }

func (m *Master) setTime(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell()
	_ = m.redis.Keys() // what is due so far expires by the clock so far
	m.ahead += m.gained()
	m.since, m.set = now(), true
	change()
	m.tell()
	_ = m.redis.Keys()
}

// gained is by how much the clock has gone ahead since its rate was set; under m.mu.
func (m *Master) gained() time.Duration {
	if m.gain == 0 {
		return 0
	}
	return time.Duration(float64(now().Sub(m.since)) * m.gain)
}

// clockAhead is by how much the clock is ahead of everybody else's now.
func (m *Master) clockAhead() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ahead + m.gained()
}

// tell tells miniredis the time where that is not everybody's; under m.mu. miniredis
// can be told an instant only, so that every command begins by it.
func (m *Master) tell() {
	if m.set {
		m.redis.SetTime(now().Add(m.ahead + m.gained()))
	}
}

// data is the database at the present time.
func (m *Master) data() *miniredis.Miniredis {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell()
	return m.redis
}
