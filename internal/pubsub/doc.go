// Package pubsub keeps a connection that hears channels while the process has listeners.
//
//	subscription.go  Subscription: the channels, and dialling again
//	conn.go          one connection: its writer and its reader
package pubsub
