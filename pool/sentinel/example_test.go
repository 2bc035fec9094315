package sentinel_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/sentinel"
	"github.com/quorumlock/go-redlock/redlock"
)

// Each of three nodes is a master that its own three Sentinels watch.
func Example() {
	var nodes []*pool.Node
	for _, zone := range []string{"a", "b", "c"} {
		node, err := pool.Open(pool.Config{Name: zone, Kind: &sentinel.Config{
			Master:    "locks",
			Addresses: []string{"s1." + zone + ":26379", "s2." + zone + ":26379", "s3." + zone + ":26379"},
		}})
		if err != nil {
			slog.Error("wrong configuration", "error", err)
			return
		}
		nodes = append(nodes, node)
	}
	// Nodes behind Sentinels need the restart guard.
	locker, err := redlock.New(nodes, redlock.WithRestartGuard(time.Minute))
	if err != nil {
		slog.Error("wrong configuration", "error", err)
		return
	}
	defer locker.Close(context.Background())
}
