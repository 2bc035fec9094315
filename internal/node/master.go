package node

import (
	"context"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/pubsub"
	"github.com/quorumlock/go-redlock/internal/server"
)

// Master is the shape of one master. A Cluster has one for each of its masters.
type Master struct {
	*server.Server
	Config *server.Config
	Parts  *Parts
}

// NewMaster makes a master. Start dials it.
func NewMaster(p *Parts, cfg *server.Config) Master { return Master{server.New(cfg), cfg, p} }

// Subscribe returns a subscription to the master.
func (m Master) Subscribe(listener command.Listener) command.Subscription {
	return pubsub.New(m.Parts.Life, m.Config.Settings, Greeting(m.Config.Dialer, m.Config.Settings), listener, m.Parts.Log)
}

// Servers returns the master.
func (m Master) Servers(context.Context) (Servers, error) { return Servers{All: []Master{m}}, nil }

// Servers are the servers of a node.
type Servers struct {
	All []Master
	// Cluster reports that the node is a Redis Cluster. Unserved of its slots have no master; Gap says why,
	// and what to do.
	Cluster  bool
	Unserved int
	Gap      string
	// Sentinels returns the last answers of the node's Sentinels. It waits until each has answered or failed, or until
	// ctx ends. It is nil without Sentinels.
	Sentinels func(ctx context.Context) []SentinelAnswer
}

// SentinelAnswer is the last answer of one Sentinel of a node.
type SentinelAnswer struct {
	Address string // of the Sentinel
	Master  string // the master that it named; empty if it knows none, or has not answered yet
	Others  int    // the number of other Sentinels that it knows
	Err     string // why it could not be queried since; empty if it could
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
