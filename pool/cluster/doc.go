// Package cluster has nodes that are Redis Clusters. A program that imports it may have such nodes: by a [Config] in the
// field Kind of a pool.Config, or by a URL with the scheme redis+cluster or rediss+cluster.
//
//	pool.Config{Kind: &cluster.Config{Addresses: []string{"c1:6379", "c2:6379"}}}
package cluster

// The files of the package.
//
//	config.go        Config and its URL
//	kind.go          what package pool asks for: checks, URLs, opening a node
//	cluster.go       a node: its shards, and what it says of all of them
//	topology.go      what a new slot map changes; refresh.go asks for it, slots.go reads CLUSTER SLOTS
//	slotmap.go       decides where a command goes
//	route.go         sends a command to its master; ping.go sends one to each
//	shard.go         one master; redirect.go: MOVED and ASK
//	subscription.go  the channels of a Cluster, each at the master of its slot
