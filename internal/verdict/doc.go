// Package verdict decides why an attempt failed, and what to wait for. It is pure: it has no clock, goroutine, mutex or
// I/O.
//
//   - failure.go: what is known of a failed attempt, and the reasons that its votes show
//   - query.go: which nodes are asked who has the names, and when their answers suffice
//   - sightings.go: the verdict from the keys that were found on the nodes, and since when they have been there
package verdict
