// Package command contains the requests that a coordinator sends to one node ([Request], [Command])
// and the node's replies ([Reply]).
//
// It is below package pool, so package redlock can define the node that it needs, and a test can
// fake one, without a Redis client. The operations are those of a lock, not of Redis. new.go makes
// each request; request.go and scripts.go define how it is sent as Redis commands: plain Redlock, as
// the Redis documentation describes it.
package command
