// Package quorum is the arithmetic of Redlock: when a vote is decided, and how
// long what it won is valid.
//
// It is pure. It imports nothing, reads no clock and does no I/O: instants and
// durations come in as arguments, as any integer type of nanoseconds. That is
// what lets every vote of small fleets be tried in its tests, one by one.
package quorum
