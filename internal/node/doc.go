// Package node is what nodes of all kinds are made of. Package pool has the API and nodes of one master. The packages
// pool/sentinel and pool/cluster have the other kinds, which only programs link that import them.
package node

// The files of the package.
//
//	kind.go      Kind and Shape: what a kind is asked for, and what a node of it does; the schemes of URLs
//	parts.go     Parts: what every node has; subscriptions, and connections that only authenticate
//	master.go    Master: one master; its counters
//	log.go       logs the events of connections
//	setting.go   checks of settings
