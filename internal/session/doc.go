// Package session decides which commands a server may be sent, by what it said of itself. It has no clock, goroutine
// or connection.
//
//	facts.go   Facts: what is asked in the greeting, and what the replies say
//	state.go   State: which commands a connection carries
//	faults.go  what is wrong with a server, by its facts
//	marker.go  Marker: whether the server votes under the restart guard, and when it is asked
//	errors.go  why the restart guard keeps a node from voting
package session
