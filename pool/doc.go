// Package pool connects to Redis masters: one [Node] for each, over redigo.
//
// A node has one pipelined connection by default (Config.Connections). Callers
// queue commands and never wait for a socket; whatever is queued goes out in one
// write; a reader matches the replies in order. All commands of one lock take
// the same connection, so that an undo can't overtake what it undoes
// (docs/hazards.md H1), and when a connection died with an acquire unanswered, the
// server is told to drop it before the undos follow on the next one (H95).
//
//	node.go       Node: Open, Wrap, Submit, Close
//	config.go     Config, its defaults and bounds; url.go: ParseURL
//	source.go     where connections come from: our own redigo pool, or a wrapped one
//	dial.go       TCP, unix and TLS under one deadline
//	handshake.go  what is read and set before the first command
//	lane.go       a queue and the connection that serves it, across re-dials
//	link.go       one connection's life: writing, reading, watching
//	orphan.go     acquires that died with their connection, and their undos
//	reply.go      from Redis replies to votes
//	subscribe.go  a connection of its own for pub/sub; subscriber.go: one such connection
//
// The words that nodes are spoken to in stand in pool/wire.
package pool
