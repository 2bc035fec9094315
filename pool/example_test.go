package pool_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// The password of this node can be rotated, and the node has a log.
func ExampleOpen() {
	node, err := pool.Open(pool.Config{
		Name:    "a", // the same for all clients, also after a change of the address
		Address: "10.0.0.1:6379",
		Credentials: func(context.Context) (user, password string, err error) {
			text, err := os.ReadFile("/run/secrets/redis") // read at every dial
			return "app", string(text), err
		},
		Logger: slog.Default(),
	})
	if err != nil {
		slog.Error("wrong configuration", "error", err) // never that the server cannot be reached
		return
	}
	defer node.Close() // unless a Locker takes it, whose Close closes it
}

// Each of three nodes is a master that its own three Sentinels watch.
func ExampleOpen_sentinels() {
	var nodes []*pool.Node
	for _, zone := range []string{"a", "b", "c"} {
		node, err := pool.Open(pool.Config{Name: zone, Sentinels: &pool.Sentinels{
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

// A whole Redis Cluster is one node, and therefore one vote.
func ExampleOpen_cluster() {
	node, err := pool.Open(pool.Config{Name: "cluster-a", Cluster: []string{"10.0.0.1:6379", "10.0.0.2:6379"}})
	if err != nil {
		slog.Error("wrong configuration", "error", err)
		return
	}
	defer node.Close()
}

func ExampleParseURL() {
	cfg, err := pool.ParseURL("rediss://app:secret@10.0.0.1/2?name=a&dial_timeout=1.5s")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Name, cfg.Address, cfg.Database, cfg.DialTimeout, cfg.TLS != nil)
	fmt.Println(cfg) // without the password

	_, err = pool.ParseURL("redis://:pass/word@10.0.0.1")
	fmt.Println(err) // the errors show no part of the URL
	// Output:
	// a 10.0.0.1:6379 2 1.5s true
	// rediss://app@10.0.0.1:6379/2
	// pool: the URL of a master: must be redis://[[user]:password@]host[:port][/database]; in user and password / ? # @ must be percent-encoded
}
