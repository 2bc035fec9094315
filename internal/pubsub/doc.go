// Package pubsub keeps a connection that hears channels while somebody listens.
//
//	subscription.go  Subscription: the channels, and dialling again
//	conn.go          one connection: its writer and its reader
package pubsub
