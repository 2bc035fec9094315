// Package sentinel has nodes whose master Redis Sentinels name. A program that imports it may have such nodes: by a
// [Config] in the field Kind of a pool.Config, or by a URL with the scheme redis+sentinel or rediss+sentinel.
//
//	pool.Config{Kind: &sentinel.Config{Master: "orders", Addresses: []string{"s1:26379", "s2:26379", "s3:26379"}}}
//
// Addresses has all Sentinels: a majority of them names the master. redlock.New takes such a node only with
// redlock.WithRestartGuard.
package sentinel

// The files of the package.
//
//	sentinel.go   Config and its URL
//	kind.go       what package pool asks for: checks, URLs, opening a node
//	council.go    decides which master the majority of Sentinels names
//	resolver.go   a node: follows what its council decides
//	watcher.go    asks one Sentinel
