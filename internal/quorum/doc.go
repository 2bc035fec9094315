// Package quorum is the arithmetic of Redlock: when a vote is decided, and how long the lock that
// it won is valid.
//
// The package has no state and does no I/O. It imports nothing and reads no clock. Instants and
// durations are arguments, as any integer type of nanoseconds. Its tests can therefore try every
// sequence of votes for small numbers of nodes.
package quorum
