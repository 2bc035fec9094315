// Command onelock prints how often mutexes of this module are locked for one uncontended lock on
// three nodes. Command lockorder compiles it, with mutexes that count. Compiled by go build -cover, and
// with a folder as its argument, it writes there which functions one more acquisition calls.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/coverage"
	"slices"
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

// locks are measured after as many others. Health checks run beside them, so the results are medians.
const locks = 1000

func run() error {
	ctx := context.Background()
	var nodes []*pool.Node
	for _, name := range []string{"a", "b", "c"} {
		n, err := pool.Open(pool.Config{Name: name, Dial: fakeredis.New(name).Dial, Address: name + ":6379"})
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	l, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close(ctx) }()
	var acquires, releases []int
	for i := range 2 * locks {
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
		if i >= locks {
			acquires, releases = append(acquires, held-before), append(releases, record.Locked()-held)
		}
	}
	if len(os.Args) > 1 {
		return called(ctx, l, os.Args[1])
	}
	fmt.Printf("an acquisition locks %d mutexes, a release %d\n", median(acquires), median(releases))
	return nil
}

// called writes which functions an acquisition calls.
func called(ctx context.Context, l *redlock.Locker, folder string) error {
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if _, err := l.Acquire(ctx, "name", 10*time.Second); err != nil {
		return err
	}
	settle()
	return errors.Join(coverage.WriteMetaDir(folder), coverage.WriteCountersDir(folder))
}

func median(counts []int) int {
	slices.Sort(counts)
	return counts[len(counts)/2]
}

// settle waits until all nodes have answered. They are in memory and take microseconds.
func settle() { time.Sleep(time.Millisecond) } //nolint:forbidigo // the masters run in real time
