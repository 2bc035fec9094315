// Package wire is the vocabulary of a node: what a coordinator asks one master
// ([Request], [Command]) and what it is told ([Reply]).
//
// It stands below package pool, so that package redlock can say which node it
// needs, and a test can fake one, without a Redis client. The words are those
// of a lock, not of Redis; how each is put on the wire (plain Redlock, as the
// Redis documentation describes it) is said once, in request.go and script.go.
package wire
