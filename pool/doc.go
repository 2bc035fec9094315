// Package pool connects to the nodes of a lock, one [Node] for each, over redigo: single masters,
// and with the packages pool/sentinel and pool/cluster masters behind Sentinels, and Redis Clusters.
//
// A node has one pipelined connection, and one more for announcements while callers wait for locks. A Cluster
// has these to each of its masters. Callers queue commands and never wait for a socket. All queued
// commands go out in one write, and a reader matches the replies in order. All commands of one lock
// take the same connection, so an undo can't overtake the command that it undoes. If a connection
// ended with an acquire unanswered, the server may still read that acquire from it. So the next
// connection tells the server to drop the old one before it sends the undos. Where it may not, the
// node deletes what such an acquire makes late.
package pool

// The files of the package.
//
//	node.go               Node: Open, Wrap, Close
//	voter.go              a node as other packages of this module speak to it
//	config.go             Config, its defaults and bounds
//	url.go, url_hosts.go  ParseURL, and URLs with several hosts
//	wrap.go               nodes over a redigo pool of the user's: their Config
//	stats.go              counters
//	errors.go             what errors match
//
// Package internal/node has what nodes of all kinds are made of, and internal/server drives one server.
// Package internal/command has the commands and replies, internal/reply what a server's reply means, and
// internal/transport the connections: dialling, the greeting, bounds. Package internal/pubsub has subscriptions.
