// Package status is `redlock status`: who holds a lock, on which nodes, and for how long.
//
//	status.go    the flags and the query; the state of a lock
//	text.go      the answer for people and for programs
package status
