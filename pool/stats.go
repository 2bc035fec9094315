package pool

import (
	"maps"
	"slices"
	"sync/atomic"
)

// Stats are a node's counters since it was opened, and its state now.
type Stats struct {
	Connected    int   // connections that are up
	Queued       int   // commands that wait to be written
	Commands     int64 // commands submitted
	Written      int64 // commands written, also those written again
	Writes       int64 // system calls that wrote them (a wrapped pool: flushes)
	Replies      int64 // replies matched to commands
	Dials        int64 // dials tried, and
	DialFailures int64 // … failed
	HangingDials int64 // dials that were given up and have not returned
	Killed       int64 // old connections ended by CLIENT KILL before undos
	Sentinels    int   // that have named the present master within Sentinels.MaxAge
	Switches     int64 // how often they came to name another one
	Masters      int   // of a Cluster, that have slots
	Redirects    int64 // commands that members of a Cluster have sent on to others (MOVED, ASK)
	ParkedUndos  int   // undos that will be sent once more, most of them because the server answered by an error; at most 10,000
	DroppedUndos int64 // undos that were given up because that many were parked: their keys remain until their TTL
}

type counters struct {
	commands, written, writes, replies, dials, dialFailures, hanging, killed, lines atomic.Int64
	parked, dropped                                                                 atomic.Int64
	dropping                                                                        atomic.Bool // it was logged that undos are dropped
}

// Stats reads the counters. It is safe for concurrent use; the figures are not
// of one instant.
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

// stats adds up what the members have counted; of those that have left the Cluster
// nothing is left.
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
