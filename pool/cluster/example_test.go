package cluster_test

import (
	"log/slog"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
)

// A whole Redis Cluster is one node, and therefore one vote.
func Example() {
	node, err := pool.Open(pool.Config{Name: "cluster-a", Kind: &cluster.Config{Addresses: []string{"10.0.0.1:6379", "10.0.0.2:6379"}}})
	if err != nil {
		slog.Error("wrong configuration", "error", err)
		return
	}
	defer node.Close()
}
