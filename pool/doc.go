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
//	voter.go              a node as other packages of this module speak to it
//	config.go             Config, its defaults and bounds
//	url.go, url_hosts.go  ParseURL, and URLs with several hosts
//	wrap.go               nodes over a redigo pool of the user's: their Config
//	stats.go              counters
//	errors.go             what errors match
//
// The path of a command:
//
//	pipeline.go           drives one server, over connections that come and go
//	queue.go, ring.go     queued commands, and how those that are not sent end
//	writer.go             writes batches to a connection; merge.go: commands that share a call
//	flight.go             what was written and has no reply yet
//	link.go               reads the replies of a connection
//	ledger.go             what is still to be deleted on the server
//	standing.go           what is known of the server: its checks, and the restart guard's marker
//
// Dialling:
//
//	handshake.go          what is read before the first command
//	door.go               connections for the doctor and the command
//
// Kinds of nodes:
//
//	kind.go               where a node differs from a master at a fixed address
//	sentinel.go           a node behind Sentinels
//	sentinel_council.go   which master their majority names
//	sentinel_resolver.go  dials that one, and ends connections to others
//	sentinel_watcher.go   asks one Sentinel
//	cluster.go            a node that is a Redis Cluster
//	cluster_slotmap.go    decides: which master has which slot, and where a command goes
//	cluster_topology.go   asks for the slot map; cluster_slots.go: reads CLUSTER SLOTS
//	cluster_route.go      sends a command to its master; cluster_redirect.go: MOVED and ASK
//	cluster_shard.go      one master of a Cluster
//	cluster_subscription.go  the channels of a Cluster, each at the master of its slot
//	cluster_masters.go    all masters, and a ping to each
//
// Package internal/command has the commands and replies, internal/reply what a server's reply means, and
// internal/transport the connections: dialling, the greeting, bounds. Package internal/pubsub has subscriptions,
// internal/undo knows which acquires may be executed late, and internal/session says what a server's facts and its marker mean.
