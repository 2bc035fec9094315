package pool

import (
	"maps"
	"slices"
	"sync/atomic"
)

// Stats are the counters of a node since it was opened, and its present state.
type Stats struct {
	Connected    int   // connections that are up
	Queued       int   // commands that wait to be written
	Commands     int64 // commands submitted
	Written      int64 // commands written, including those written again
	Writes       int64 // system calls that wrote them (a wrapped pool: flushes)
	Replies      int64 // replies matched to commands
	Dials        int64 // dials
	DialFailures int64 // dials that failed
	HangingDials int64 // dials that were abandoned and have not returned
	Killed       int64 // old connections closed by CLIENT KILL before undos
	Sentinels    int   // Sentinels that have named the present master within Sentinels.MaxAge
	Switches     int64 // how often the Sentinels named another master
	Masters      int   // masters of a Cluster with slots
	Redirects    int64 // commands that shards of a Cluster have redirected (MOVED, ASK)
	ParkedUndos  int   // undos that will be sent once more, mostly after an error; at most 10,000
	DroppedUndos int64 // undos that were dropped because that many were parked: their keys remain until their TTL
}

type counters struct {
	commands, written, writes, replies, dials, dialFailures, hanging, killed, lines atomic.Int64
	parked, dropped                                                                 atomic.Int64
	dropping                                                                        atomic.Bool // it was logged that undos are dropped
}

// Stats returns the counters. It is safe for concurrent use. The figures are not of one instant.
func (n *Node) Stats() Stats {
	s := Stats{
		Commands:     n.count.commands.Load(),
		Written:      n.count.written.Load(),
		Writes:       n.count.writes.Load(),
		Replies:      n.count.replies.Load(),
		Dials:        n.count.dials.Load(),
		DialFailures: n.count.dialFailures.Load(),
		HangingDials: n.count.hanging.Load(),
		Killed:       n.count.killed.Load(),
		ParkedUndos:  int(n.count.parked.Load()),
		DroppedUndos: n.count.dropped.Load(),
	}
	if n.resolver != nil {
		s.Sentinels, s.Switches = n.resolver.explain()
	}
	if n.cluster != nil {
		n.cluster.stats(&s)
	}
	for _, l := range n.pipelines {
		up, queued := l.stats()
		s.Queued += queued
		if up {
			s.Connected++
		}
	}
	return s
}

// stats adds the counters of the shards. Those of retired shards are lost.
func (cl *cluster) stats(s *Stats) {
	masters, _ := cl.masters()
	cl.mu.Lock()
	s.Masters, s.Redirects, s.Queued = len(masters), cl.redirects, len(cl.parked)
	all := slices.Collect(maps.Values(cl.shards))
	cl.mu.Unlock()
	for _, m := range all {
		each := m.node.Stats()
		s.Connected += each.Connected
		s.Queued += each.Queued
		s.Written += each.Written
		s.Writes += each.Writes
		s.Replies += each.Replies
		s.Dials += each.Dials
		s.DialFailures += each.DialFailures
		s.Killed += each.Killed
	}
}
