// Package query asks nodes what a Locker does not show: keys by a pattern, and tokens.
//
//	group.go        the nodes, and queries for the values of keys
//	broadcast.go    a request to every node, whose answers are no votes
package query
