package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/stage"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/redlock"
)

// Subcommand returns `bench`.
func Subcommand() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "bench [flags]",
			Short: "measure how long it takes to acquire and release a lock",
			Long:  benchAbout,
			Example: "  redlock bench --nodes redis://a:6379,redis://b:6379,redis://c:6379 --clients 16 --for 10s\n" +
				"  redlock bench --embedded --count 1000",
		},
		Define: benchFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "the measurement is complete, and no key is left"),
			cli.Ends(cli.ExitFailed, "an acquisition or a release failed, or a key is left"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "no quorum of nodes could be reached at the start"),
			cli.EndsUnwritten,
			cli.EndsQuarantine, cli.EndsUnguarded,
			cli.Ends(cli.ExitSignal, "signal n ended it; the results so far are printed"),
		},
	}
}

const benchAbout = `Each of --clients is a goroutine of this process. It acquires a name of its own and
releases it, again and again, until --for has passed or --count is reached. There is no
contention. The names begin with bench- and a random word. At the end it checks that no
key of them is left. Fencing is off, because its counters would be left.

It loads the nodes as much as it can. With --embedded it measures nodes inside this
process, which are slow. That says nothing about Redis: it only shows the output.

With --json it prints one object:
  nodes       the nodes' names
  embedded    whether they were inside this process
  clients     how many ran at the same time
  took_ms     the duration of all of it
  done        how many locks were acquired and released
  per_second  of these
  failed      how many attempts failed
  errors      the errors, and how often each occurred
  left        names with keys that are left
  acquire, release, both
    min_us, mean_us, p50_us, p90_us, p99_us, p999_us, max_us
    buckets   below_us, and the number n between that and the bucket before
`

// bench is one run of `bench`: its flags and its state.
type bench struct {
	clients int
	bound   time.Duration
	count   int // 0: no limit
	guard   time.Duration

	locker *redlock.Locker
	clock  clock.Clock
	prefix string
	begun  atomic.Int64
	done   atomic.Int64
	failed atomic.Int64
}

// Bounds of the flags, and the TTL of what is measured.
const (
	maxClients = 256
	maxTime    = 10 * time.Minute
	maxCount   = 10_000_000
	benchTTL   = 10 * time.Second
)

func benchFlags(f *pflag.FlagSet) cli.RunFunc {
	b := &bench{clock: clock.System()}
	cli.NodeFlags(f)
	cli.GuardFlag(f)
	inside := f.Bool("embedded", false, "measure three nodes inside this process")
	f.IntVar(&b.clients, "clients", 1, "the `number` of goroutines, up to 256 (default: 1)")
	cli.DurationVar(f, &b.bound, "for", "", 5*time.Second, "how long, up to 10m (default: 5s)")
	f.IntVar(&b.count, "count", 0, "stop after this `number` of acquisitions, up to 10000000 (default: 0, no limit)")
	return func(ctx context.Context, c *cli.Invocation) int {
		nodes, end, err := b.prepare(c, *inside)
		if err != nil {
			return c.Misused("%v", err)
		}
		defer end()
		// With the library's node timeout, connections that are still being made would count as failures.
		if b.locker, err = c.Open(nodes, b.guard, cli.NodeTimeout(b.ttl()), redlock.WithOwner("bench")); err != nil {
			return c.Misused("%v", err)
		}
		defer cli.CloseSoon(b.locker)
		return b.measure(ctx, c, *inside)
	}
}

// prepare checks the flags and the words, and resolves the nodes. The caller calls end.
func (b *bench) prepare(c *cli.Invocation, inside bool) (nodes cli.NodeList, end func(), err error) {
	switch {
	case len(c.Words()) > 0:
		return nodes, nil, errors.New("takes no NAME")
	case b.clients < 1 || b.clients > maxClients:
		return nodes, nil, fmt.Errorf("--clients must be from 1 to %d", maxClients)
	case b.bound <= 0 || b.bound > maxTime:
		return nodes, nil, fmt.Errorf("--for must be more than 0, and at most %v", maxTime)
	case b.count < 0 || b.count > maxCount:
		return nodes, nil, fmt.Errorf("--count must be from 0 to %d", maxCount)
	}
	if b.guard, err = c.MaxTTL(); err != nil {
		return nodes, nil, err
	}
	if inside { // nodes that nobody has begun the guard on
		if b.guard = 0; c.Command.Flag("guard").Changed {
			return nodes, nil, errors.New("--embedded excludes --guard: its nodes are not guarded")
		}
	}
	nodes, end, err = stage.Nodes(c, inside)
	if errors.Is(err, cli.ErrNoNodes) {
		err = errors.New("no nodes given by --nodes or REDLOCK_NODES; --embedded measures nodes inside this process")
	}
	return nodes, end, err
}

func (b *bench) ttl() time.Duration {
	if b.guard > 0 {
		return min(cli.Slowed(benchTTL), b.guard)
	}
	return cli.Slowed(benchTTL)
}

// measure runs the clients until the time or the count is over, and prints the result. It returns
// the exit status.
func (b *bench) measure(ctx context.Context, c *cli.Invocation, inside bool) int {
	ctx, stop := cli.Listen().Until(ctx)
	defer stop()
	b.prefix = "bench-" + strings.ToLower(rand.Text()[:10])
	samples, err := b.warm(ctx)
	if err != nil {
		return c.Refused(err)
	}
	began := b.clock.Now()
	b.work(ctx, c, samples)
	r := &benchResult{embedded: inside, clients: b.clients, took: b.clock.Now().Sub(began)}
	for i := range samples {
		r.merge(&samples[i])
	}
	r.nodes, r.left = b.leftovers(ctx)
	if c.JSON {
		c.Result = r.object()
	} else {
		r.print(c.Printer())
	}
	var sig cli.SignalError
	switch {
	case errors.As(context.Cause(ctx), &sig):
		return cli.ExitSignal + int(sig.Signal)
	case r.failed() > 0 || len(r.left) > 0:
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// warm makes the samples of all clients. It acquires a few locks first, so that connections and
// scripts are in place before the measurement. It returns an error if no lock can be acquired.
func (b *bench) warm(ctx context.Context) ([]sample, error) {
	samples := make([]sample, b.clients)
	for i := range samples {
		samples[i].name = b.name(i)
	}
	if err := (cli.RestartGuard{Locker: b.locker, MaxTTL: b.guard}).Begun(ctx); err != nil {
		return nil, err
	}
	for range 10 {
		lock, err := b.locker.TryAcquire(ctx, b.name(0), b.ttl())
		if err != nil {
			return nil, err
		}
		_ = lock.Release(ctx)
	}
	return samples, nil
}

// name returns the lock name of a client. Each client has its own, so clients do not wait for each
// other.
func (b *bench) name(i int) string { return fmt.Sprintf("%s/%d", b.prefix, i+1) }

// work runs all clients until the time or the count is over.
func (b *bench) work(ctx context.Context, c *cli.Invocation, samples []sample) {
	b.begun.Store(0)
	b.done.Store(0)
	b.failed.Store(0)
	ctx, cancel := context.WithTimeout(ctx, b.bound)
	defer cancel()
	var clients sync.WaitGroup
	for i := range samples {
		clients.Go(func() { samples[i].takeAll(ctx, b) })
	}
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { b.progress(c, over) })
	clients.Wait()
	close(over)
	shown.Wait()
}

// progress shows the counts on a terminal until over is closed.
func (b *bench) progress(c *cli.Invocation, over <-chan struct{}) {
	line := terminal.NewLine(c.Stderr)
	if !line.Begin() {
		return
	}
	defer line.End()
	began := b.clock.Now()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		passed := b.clock.Now().Sub(began)
		line.Show("redlock: %s of %v, %s locks, %s failed", terminal.Short(passed.Truncate(time.Second/10)), b.bound,
			terminal.Thousands(b.done.Load()), terminal.Thousands(b.failed.Load()))
		select {
		case <-tick.C:
		case <-over:
			tick.Stop()
			return
		}
	}
}

// leftovers returns the nodes, and the names of which a key is left. On each connection the query
// is answered after the releases that were sent before it.
func (b *bench) leftovers(ctx context.Context) (nodes, left []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for i := range b.clients {
		name := b.name(i)
		s, _ := b.locker.Inspect(ctx, name)
		if s == nil {
			continue // too few nodes answer: leftover keys expire
		}
		if nodes == nil {
			for _, n := range s.Nodes {
				nodes = append(nodes, n.Node)
			}
		}
		for _, n := range s.Nodes {
			if n.Held {
				left = append(left, name+" on "+n.Node)
			}
		}
	}
	return nodes, left
}
