// Package verdict decides why an attempt failed, and what to wait for. It is pure: it has no clock, no goroutine and
// no mutex, and asks no node.
//
//   - failure.go: what is known of a failed attempt, and the reasons that its votes show
//   - sightings.go: the verdict from the keys that were found on the nodes, and since when they have been there
package verdict
