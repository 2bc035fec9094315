package pool

import "github.com/quorumlock/go-redlock/internal/node"

// Stats are a node's counters since it was opened, and its present state.
type Stats struct {
	Connected    int   // connections that are up
	Queued       int   // commands that wait to be written
	Written      int64 // commands written, including those written again
	Writes       int64 // system calls that wrote them (for a wrapped pool: flushes)
	Dials        int64 // dials tried
	DialFailures int64 // dials that failed
	HangingDials int64 // dials that were given up and have not returned yet
	Sentinels    int   // Sentinels that have named the present master within sentinel.Config.MaxAge
	Switches     int64 // how often the Sentinels came to name another master
	Masters      int   // masters of a Cluster that have slots
	Redirects    int64 // commands that members of a Cluster redirected to others (MOVED, ASK)
	ParkedUndos  int   // undos that will be retried; at most 10,000
	DroppedUndos int64 // undos and late acquires that there was no room for: their keys remain until their TTL
	Merged       int64 // releases and acquires sent in one call with others
	Unmerged     int64 // of these, commands whose call failed: releases are sent again by themselves
	Violations   int64 // connections ended because the peer broke the protocol or exceeded the bounds on replies
}

// Stats reads the counters. It is safe for concurrent use. The figures are read one after
// another, and so may be of slightly different instants.
func (n *Node) Stats() Stats {
	parked, dropped := n.parts.Parked()
	s := node.Stats{HangingDials: n.hanging.Load(), ParkedUndos: int(parked), DroppedUndos: dropped}
	_ = n.shape.State(&s) // whether it votes is not asked here
	return Stats(s)
}
