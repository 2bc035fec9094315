package sim

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// inject makes one fault happen; what ends it comes by itself.
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
	case "reset": // with bytes unread on both sides
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
		m.SetClock(f.d)
	case "delete":
		m.Del(names[0])
	default:
		w.crash(f, m)
	}
	w.logs[f.who] = w.saved(f, m)
}

// saved is what a log that is written every now and then has by this time: of about
// every other fault it is some faults old.
func (w *world) saved(f fault, m *fakeredis.Master) *fakeredis.Snapshot {
	if f.at.Nanoseconds()%2 == 0 {
		return m.Snapshot()
	}
	return w.logs[f.who]
}

// crash ends the master, and starts it again when f says so: with all it had, with
// nothing, or with what a log or a replica has, which is older.
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
	if f.kind == "suspend" {
		c.clock.Suspend(f.d)
		c.look()
		return
	}
	c.clock.Stall()
	c.world.later(f.d, c.clock.Resume)
}

// look ends the holds of handles whose validity a suspend has ended, at the instant at
// which they end by the client's clock: its timers come late.
func (c *client) look() {
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
