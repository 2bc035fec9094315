package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// engineTimeout bounds one request to the Docker engine. Creating a container takes about half a
// second on an idle machine. The bound allows for a busy one.
const engineTimeout = time.Minute

// init keeps testcontainers from printing details of the engine into the output of every test run.
func init() { log.SetDefault(log.NewNoopLogger()) }

// requireEngine skips the test if no Docker engine answers, and fails it instead if CI=true.
func requireEngine(t testing.TB) {
	t.Helper()
	err := repeated(t.Context(), func() error {
		return withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
			_, err := cli.Ping(ctx, client.PingOptions{})
			return err
		})
	}, client.IsErrConnectionFailed)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("no Docker engine answers, and CI=true forbids to skip the test: %v", err)
	default:
		t.Skipf("no Docker engine answers: %v", err)
	}
}

// withEngine calls fn with a client of the Docker engine, and then closes the client. The idle
// connection of an open client needs two goroutines, which [NoGoroutines] would have to distinguish
// from leaked ones.
func withEngine(ctx context.Context, fn func(context.Context, *client.Client) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("redistest: connect to the Docker engine: %w", err)
	}
	defer func() { err = errors.Join(err, cli.Close()) }()
	return fn(ctx, cli.Client)
}

// onMachine reports whether containers can use this machine's network, which costs the engine much less than
// networks of its own: the engine has the kernel of this machine, is not Docker Desktop, which hides its
// network, and not rootless. Elsewhere containers have Docker's networks.
func onMachine() bool { return engine().onMachine }

// Parent is the parent of the containers' control groups; "" leaves it to Docker. Docker's own is one group, which gets as
// much processor time as another one, however many servers it has: beside busy processes each server would stand still for
// seconds. Docker can put them next to the others unless systemd keeps the groups.
func Parent() string { return engine().parent }

// engineFacts are what the harness knows of the Docker engine.
type engineFacts struct {
	onMachine bool
	parent    string
}

var engine = sync.OnceValue(func() (e engineFacts) {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return e // not Linux
	}
	_ = withEngine(context.Background(), func(ctx context.Context, cli *client.Client) error {
		found, err := cli.Info(ctx, client.InfoOptions{})
		if err != nil {
			return err
		}
		rootless := slices.ContainsFunc(found.Info.SecurityOptions, func(o string) bool { return strings.Contains(o, "rootless") })
		sameKernel := found.Info.KernelVersion == strings.TrimSpace(string(kernel))
		e.onMachine = sameKernel && found.Info.OperatingSystem != "Docker Desktop" && !rootless
		if e.onMachine && found.Info.CgroupDriver == "cgroupfs" {
			e.parent = "/"
		}
		return nil
	})
	return e
})

// engineTries is how often the engine is asked for the same. On a busy machine it may give up ("unable
// to freeze"), or not answer in time.
const engineTries = 3

// repeated calls fn until it succeeds, engineTries times at most, unless its error is final.
func repeated(ctx context.Context, fn func() error, final func(error) bool) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil || final(err) {
			return err
		}
		if try == engineTries || ctx.Err() != nil {
			return fmt.Errorf("%w (%d tries)", err, try)
		}
		select {
		case <-time.After(time.Second): // what keeps the machine busy may end
		case <-ctx.Done():
		}
	}
}

// neverFinal is for errors that may all come from a busy machine.
func neverFinal(error) bool { return false }

// machineFailed fails a test because of what is under it.
func machineFailed(t testing.TB, what string, err error) {
	t.Helper()
	t.Fatalf("redistest: the machine failed (Docker), and not the library: %s: %v", what, err)
}
