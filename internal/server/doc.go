// Package server drives one Redis server: commands go to it in order, over connections that come and go. It does what the packages
// session (which commands may be sent), undo (what is still to be deleted) and reply (what was said) decide.
package server

// The files of the package.
//
//	server.go    Server: dials, serves a connection, dials again
//	config.go    its settings, and what the kind of a node changes
//	shared.go    what the servers of one node share
//	queue.go     commands that wait to be written
//	dropped.go   how those that are not sent end
//	writer.go    writes batches to a connection; merger.go: commands that share a call
//	flight.go    what was written and has no reply yet
//	link.go      one connection: reads the replies, and answers
//	standing.go  what is known of the server: its checks, and the restart guard's marker
//	ledger.go    what is still to be deleted on the server
//	errors.go    reasons why a command was not executed
