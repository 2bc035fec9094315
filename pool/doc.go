// Package pool connects to the nodes of a lock, one [Node] for each, over redigo: single masters,
// masters behind Sentinels, and Redis Clusters.
//
// A node has one pipelined connection, and a Cluster one to each of its masters. Callers queue commands and
// never wait for a socket. All queued commands go out in one write, and a reader matches the
// replies in order. All commands of one lock take the same connection, so an undo can't overtake
// the command that it undoes. If a connection ended with an acquire unanswered, the server may still
// read that acquire from it. So the next connection tells the server to drop the old one before it
// sends the undos.
package pool

// The files of the package.
//
// Nodes and their configuration:
//
//	node.go               Node: Open, Wrap, Close
//	shape.go              what a node of any kind gives its Node; a single master
//	voter.go              a node as other packages of this module speak to it
//	config.go             Config, its defaults and bounds
//	url.go, url_hosts.go  ParseURL, and URLs with several hosts
//	wrap.go               nodes over a redigo pool of the user's: their Config
//	stats.go              counters
//	errors.go             what errors match; named.go: who named an address
//	log.go                logs the events of connections
//	door.go               connections for the doctor and the command
//
// Sentinels and Clusters:
//
//	sentinel.go           a node behind Sentinels
//	sentinel_council.go   decides which master their majority names; sentinel_resolver.go follows it
//	sentinel_watcher.go   asks one Sentinel
//	cluster.go            a node that is a Redis Cluster
//	cluster_slotmap.go    decides where a command goes
//	cluster_topology.go   asks for the slot map; cluster_slots.go: reads CLUSTER SLOTS
//	cluster_route.go      sends a command to its master; cluster_redirect.go: MOVED and ASK
//	cluster_shard.go      one master of a Cluster
//	cluster_subscription.go  the channels of a Cluster, each at the master of its slot
//	cluster_masters.go    all masters, and a ping to each
//
// Package internal/server drives one server: its queue, its connections, what is known of it, and what is to be deleted on it.
// Package internal/command has the commands and replies, internal/reply what a server's reply means, and
// internal/transport the connections: dialling, the greeting, bounds. Package internal/pubsub has subscriptions.
