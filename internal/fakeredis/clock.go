package fakeredis

import (
	"time"

	"github.com/alicebob/miniredis/v2"
)

// SetClock sets the master's clock ahead of all other clocks, or behind them if ahead is negative.
// TIME and the TTLs follow that clock, so a step forward makes keys expire, as on a real master. A
// step back does not lengthen TTLs.
func (m *Master) SetClock(ahead time.Duration) { m.setTime(func() { m.ahead = ahead }) }

// SetRate makes the clock run at the given rate from now on. A rate of 1 is that of all other
// clocks.
func (m *Master) SetRate(rate float64) { m.setTime(func() { m.drift = rate - 1 }) }

func (m *Master) setTime(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setMiniredisTime()
	_ = m.redis.Keys() // keys that are due by the clock so far expire
	m.ahead += m.driftSoFar()
	m.since, m.set = now(), true
	change()
	m.setMiniredisTime()
	_ = m.redis.Keys()
}

// driftSoFar returns how far the clock has advanced beyond other clocks since its rate was set; under
// m.mu.
func (m *Master) driftSoFar() time.Duration {
	if m.drift == 0 {
		return 0
	}
	return time.Duration(float64(now().Sub(m.since)) * m.drift)
}

// clockAhead returns how far the clock is ahead of other clocks.
func (m *Master) clockAhead() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ahead + m.driftSoFar()
}

// setMiniredisTime tells miniredis the time if the clock differs from the others; under m.mu.
// miniredis takes an instant only, so every command begins with this call.
func (m *Master) setMiniredisTime() {
	if m.set {
		m.redis.SetTime(now().Add(m.ahead + m.driftSoFar()))
	}
}

// data returns the database at the current time; under m.mu.
func (m *Master) data() *miniredis.Miniredis {
	m.setMiniredisTime()
	return m.redis
}
