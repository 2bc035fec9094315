package node

import (
	"context"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/pubsub"
	"github.com/quorumlock/go-redlock/internal/server"
)

// Master is the shape of one master. A Cluster has one for each of its masters.
type Master struct {
	*server.Server
	cfg   *server.Config
	parts *Parts
}

// NewMaster makes a master. Start dials it.
func NewMaster(p *Parts, cfg *server.Config) Master { return Master{server.New(cfg), cfg, p} }

// Subscribe returns a subscription to the master.
func (m Master) Subscribe(listener command.Listener) command.Subscription {
	return pubsub.New(m.parts.Life, m.cfg.Settings, Greeting(m.cfg.Dialer, m.cfg.Settings), listener, m.parts.Log)
}

// Servers returns the master.
func (m Master) Servers(context.Context) (door.Servers, error) {
	return door.Servers{All: []door.Server{m}}, nil
}

// State adds the master's counters.
func (m Master) State(s *Stats) (notVoting error) {
	if m.Up() {
		s.Connected++
	}
	s.Queued += m.Queued()
	s.Written += m.Written.Load()
	s.Writes += m.Writes.Load()
	s.Dials += m.Dials.Load()
	s.DialFailures += m.DialFailures.Load()
	s.Merged += m.Merged.Load()
	s.Unmerged += m.Unmerged.Load()
	s.Violations += m.Violations.Load()
	return m.WhyNotVoting()
}

// End closes the master.
func (m Master) End() { m.Close() }

// Stats has the fields of pool.Stats, which describes them.
type Stats struct {
	Connected    int
	Queued       int
	Written      int64
	Writes       int64
	Dials        int64
	DialFailures int64
	HangingDials int64
	Sentinels    int
	Switches     int64
	Masters      int
	Redirects    int64
	ParkedUndos  int
	DroppedUndos int64
	Merged       int64
	Unmerged     int64
	Violations   int64
}
