package fakeredis

import (
	"math"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// SetClock sets the master's clock ahead of all other clocks, or behind them if ahead is negative.
// TIME and the TTLs follow that clock: a step forward makes keys expire, and a step back lets them live
// for longer, as on a real master.
func (m *Master) SetClock(ahead time.Duration) { m.setTime(func() { m.ahead = ahead }) }

// MoveClock sets the master's clock forward by d from what it shows, or back if d is negative.
func (m *Master) MoveClock(d time.Duration) { m.setTime(func() { m.ahead += d }) }

// SetRate makes the clock run at the given rate from now on, in whole billionths. A rate of 1 is that of
// all other clocks.
func (m *Master) SetRate(rate float64) {
	m.setTime(func() { m.drift = int64(math.Round(rate*billion)) - billion })
}

const billion = 1_000_000_000

func (m *Master) setTime(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setMiniredisTime()
	_ = m.redis.Keys() // keys that are due by the clock so far expire
	drifted, rest := m.driftSoFar()
	m.ahead += drifted
	m.since, m.rest, m.set = now(), rest, true
	before := m.ahead
	change()
	m.setMiniredisTime()
	if back := before - m.ahead; back > 0 {
		m.lengthen(back)
	}
	left := m.redis.Keys()
	if m.observer != nil {
		m.observer.ClockSet(m.ahead-before, m.drift+billion, left)
	}
}

// lengthen lengthens the TTLs of all keys; under m.mu. miniredis keeps how long a key still lives, and
// Redis keeps the instant at which it expires.
func (m *Master) lengthen(by time.Duration) {
	for _, n := range m.script.databases {
		db := m.redis.DB(n)
		for _, key := range db.Keys() {
			if ttl := db.TTL(key); ttl > 0 {
				db.SetTTL(key, ttl+by)
			}
		}
	}
}

// driftSoFar returns how far the clock has advanced beyond other clocks since it was set, rounded down, and
// the rest in billionths of a nanosecond; under m.mu. It is exact, so that two sums of the same parts agree.
func (m *Master) driftSoFar() (time.Duration, int64) {
	passed := int64(now().Sub(m.since))
	part := passed%billion*m.drift + m.rest
	whole := passed/billion*m.drift + part/billion
	if part %= billion; part < 0 {
		return time.Duration(whole - 1), part + billion
	}
	return time.Duration(whole), part
}

// clockAhead returns how far the clock is ahead of other clocks.
func (m *Master) clockAhead() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.aheadNow()
}

// aheadNow is clockAhead under m.mu.
func (m *Master) aheadNow() time.Duration {
	drifted, _ := m.driftSoFar()
	return m.ahead + drifted
}

// clockNow returns what the clock shows; under m.mu.
func (m *Master) clockNow() time.Time { return now().Add(m.aheadNow()) }

// setMiniredisTime tells miniredis the time if the clock differs from the others; under m.mu.
// miniredis takes an instant only, so every command begins with this call.
func (m *Master) setMiniredisTime() {
	if m.set {
		m.redis.SetTime(m.clockNow())
	}
}

// data returns the database at the current time; under m.mu.
func (m *Master) data() *miniredis.Miniredis {
	m.setMiniredisTime()
	return m.redis
}
