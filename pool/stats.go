package pool

import (
	"maps"
	"slices"
	"sync/atomic"
)

// Stats are a node's counters since it was opened, and its present state.
type Stats struct {
	Connected    int   // connections that are up
	Queued       int   // commands that wait to be written
	Written      int64 // commands written, including those written again
	Writes       int64 // system calls that wrote them (for a wrapped pool: flushes)
	Dials        int64 // dials tried
	DialFailures int64 // dials that failed
	HangingDials int64 // dials that were given up and have not returned yet
	Sentinels    int   // Sentinels that have named the present master within Sentinels.MaxAge
	Switches     int64 // how often the Sentinels came to name another master
	Masters      int   // masters of a Cluster that have slots
	Redirects    int64 // commands that members of a Cluster redirected to others (MOVED, ASK)
	ParkedUndos  int   // undos that will be retried; at most 10,000
	DroppedUndos int64 // undos and late acquires that there was no room for: their keys remain until their TTL
	Merged       int64 // releases and acquires sent in one call with others
	Unmerged     int64 // of these, commands whose call failed: releases are sent again by themselves
	Violations   int64 // connections ended because the peer broke the protocol or exceeded the bounds on replies
}

// counters are atomic, because readers, writers and callers of all connections change them
// without a common lock.
type counters struct {
	written, writes, dials, dialFailures, hanging atomic.Int64
	parked, dropped, merged, unmerged, violations atomic.Int64
	// dropping is set once a dropped undo was logged: see countDropped.
	dropping atomic.Bool
	// forgetful is set once it was logged that the node may forget locks: see noteForgetful.
	forgetful atomic.Bool
}

// Stats reads the counters. It is safe for concurrent use. The figures are read one after
// another, and so may be of slightly different instants.
func (n *Node) Stats() Stats {
	s := Stats{
		Written:      n.count.written.Load(),
		Writes:       n.count.writes.Load(),
		Dials:        n.count.dials.Load(),
		DialFailures: n.count.dialFailures.Load(),
		HangingDials: n.count.hanging.Load(),
		ParkedUndos:  int(n.count.parked.Load()),
		DroppedUndos: n.count.dropped.Load(),
		Merged:       n.count.merged.Load(),
		Unmerged:     n.count.unmerged.Load(),
		Violations:   n.count.violations.Load(),
	}
	// The parts below take mutexes of their own, one after the other and never two at once.
	n.kind.addStats(&s)
	if n.pipeline != nil {
		s.Queued += n.pipeline.queue.len()
		if n.pipeline.up() {
			s.Connected++
		}
	}
	return s
}

// addStats adds the counters of the present shards. The counters of shards that have left the
// Cluster are lost.
func (cl *cluster) addStats(s *Stats) {
	// masters locks cl.mu itself, so it comes before the lock below.
	masters, _ := cl.masters()
	cl.mu.Lock()
	// Commands that wait for the first slot map are queued in no pipeline yet.
	s.Masters, s.Redirects, s.Queued = len(masters), cl.redirects, len(cl.unrouted)
	all := slices.Collect(maps.Values(cl.shards))
	cl.mu.Unlock()
	// Outside cl.mu: Stats of a shard locks mu of its pipelines, under which shards lock cl.mu.
	for _, sh := range all {
		each := sh.node.Stats()
		s.Connected += each.Connected
		s.Queued += each.Queued
		s.Written += each.Written
		s.Writes += each.Writes
		s.Dials += each.Dials
		s.DialFailures += each.DialFailures
		s.Violations += each.Violations
	}
}
