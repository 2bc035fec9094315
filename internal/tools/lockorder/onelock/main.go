// Command onelock prints how often mutexes of this module are locked for one uncontended lock on
// three nodes. Command lockorder compiles it, with mutexes that count.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/tools/lockorder/record"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "onelock:", err)
		os.Exit(1)
	}
}

// locks are measured after as many others. The answer of a third node may come after the call, so the
// counts are means.
const locks = 1000

func run() error {
	ctx := context.Background()
	var nodes []redlock.Node
	for _, name := range []string{"a", "b", "c"} {
		n, err := pool.Open(pool.Config{Name: name, Dial: fakeredis.New(name).Dial, Address: name + ":6379"})
		if err != nil {
			return err
		}
		defer func() { _ = n.Close() }()
		nodes = append(nodes, n)
	}
	l, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close(ctx) }()
	acquires, releases := 0, 0
	for i := range 2 * locks {
		if i == locks {
			acquires, releases = 0, 0
		}
		before := record.Locked()
		lk, err := l.Acquire(ctx, "name", 10*time.Second)
		if err != nil {
			return err
		}
		settle()
		held := record.Locked()
		if err := lk.Release(ctx); err != nil {
			return err
		}
		settle()
		acquires, releases = acquires+held-before, releases+record.Locked()-held
	}
	fmt.Printf("an acquisition locks %.1f mutexes, a release %.1f\n", float64(acquires)/locks, float64(releases)/locks)
	return nil
}

// settle waits until all nodes have answered. They are in memory and take microseconds.
func settle() { time.Sleep(time.Millisecond) } //nolint:forbidigo // the masters run in real time
