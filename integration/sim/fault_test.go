package sim

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// inject injects one fault. The fault ends by itself.
func (w *world) inject(f fault) {
	w.counts.add("fault "+f.kind, 1)
	switch f.kind {
	case "suspend", "stall":
		w.clients[f.who].disturb(f)
		return
	}
	m := w.masters[f.who]
	switch f.kind {
	case "delay":
		m.SetDelay(f.d)
	case "pause":
		m.Freeze()
		w.later(f.d, m.Unfreeze)
	case "reset": // with unread bytes on both sides
		for _, c := range m.Clients() {
			c.Drop()
		}
	case "cut":
		for _, c := range m.Clients() {
			c.CutReply(2)
		}
	case "scripts":
		m.FlushScripts()
	case "flush":
		m.FlushAll()
	case "jump":
		m.MoveClock(f.d)
		w.setBack[f.who] += max(0, -f.d)
	case "back":
		m.MoveClock(-f.d)
		w.setBack[f.who] += f.d
	case "delete":
		m.Del(names[0])
	default:
		w.crash(f, m)
	}
	w.logs[f.who] = w.saved(f, m)
}

// saved returns the content of a log that is written from time to time. About every other fault
// updates it, so it is some faults old.
func (w *world) saved(f fault, m *fakeredis.Master) *fakeredis.Snapshot {
	if f.at.Nanoseconds()%2 == 0 {
		return m.Snapshot()
	}
	return w.logs[f.who]
}

// crash stops the master, and starts it again if f says so. It comes back with all its data, with
// none, or with the older data of a log or a replica.
func (w *world) crash(f fault, m *fakeredis.Master) {
	older := w.logs[f.who]
	m.Stop()
	w.later(f.d, func() {
		switch f.kind {
		case "restart":
			_ = m.Restart(true)
		case "empty":
			_ = m.Restart(false)
		case "everysec":
			_ = m.RestartWith(older)
		case "failover":
			m.SetInfo("master_replid2", m.RunID())
			_ = m.RestartWith(older)
		}
	})
}

// disturb suspends or stalls a client.
func (c *client) disturb(f fault) {
	t := c.world.trace
	if f.kind == "suspend" {
		rate := c.rate
		if c.stalls.Load() {
			rate = 0
		}
		t.setClock(c, f.d, rate, func() { c.clock.Suspend(f.d) })
		c.refresh()
		return
	}
	c.stalls.Store(true)
	t.setClock(c, 0, 0, c.clock.Stall)
	c.world.later(f.d, func() {
		c.stalls.Store(false)
		t.setClock(c, 0, c.rate, c.clock.Resume)
	})
}

// refresh ends the records of handles whose validity has ended during a suspend, at the instant at
// which it ended by the client's clock: the client's timers are late.
func (c *client) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, holds := range c.held {
		end := func() {
			if k.Remaining() <= 0 {
				c.world.history.end(holds)
			}
		}
		if left := k.Remaining(); left > 0 {
			c.world.later(time.Duration(float64(left)/c.rate)+1, end)
			continue
		}
		end()
	}
}
