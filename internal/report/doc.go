// Package report runs hooks and writes the log, behind the locks: nothing waits for it, and it decides nothing.
//
//	reporter.go  Reporter: calls and lines in the background, in the order in which they were given
//	votes.go     Votes: whether a quorum votes, and which nodes do not
//	held.go      Held: what endangers locks that are held
//	channels.go  Channels: rights to announcements of releases that are missing
package report
