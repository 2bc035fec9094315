package pool_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/quorumlock/go-redlock/pool"
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
