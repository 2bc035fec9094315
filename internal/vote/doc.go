// Package vote sends one request to all nodes of a group and makes one decision of their answers.
//
// A [Round] is decided as early as its rule allows: when a majority granted, or when none can grant
// any more. The caller does not wait for the other nodes. A later answer changes no decision, but it
// is recorded.
//
//   - group.go: Group, the nodes and what their rounds share; how long a tied vote waits for a node
//   - new.go: makes a round of a group, and sets its time
//   - round.go: Round and its owner's methods: send, wait, read the result
//   - answer.go: the path of an answer: count it, decide, report the events; the end of the vote's time
//   - ballots.go: pure: one node's answer, and what all of them say and decide together
//   - observer.go: what a test may be told of the rounds about locks
package vote
