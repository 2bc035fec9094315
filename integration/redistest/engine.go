package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// engineTimeout bounds one request to the Docker engine. Creating a container takes about half a second on an idle machine; the
// bound is for a busy one.
const engineTimeout = time.Minute

// init keeps testcontainers from printing the engine's particulars into the output of every test run.
func init() { log.SetDefault(log.NewNoopLogger()) }

// requireEngine skips the test where no Docker engine answers, and fails it there when CI=true.
func requireEngine(t testing.TB) {
	t.Helper()
	err := withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
		_, err := cli.Ping(ctx, client.PingOptions{})
		return err
	})
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("this test needs a Docker engine, none answers, and CI=true forbids to skip it: %v", err)
	default:
		t.Skipf("this test needs a Docker engine and none answers: %v", err)
	}
}

// withEngine calls fn with a client of the Docker engine, which is closed afterwards: the idle connection it would keep costs two
// goroutines, which [NoGoroutines] would have to tell from leaked ones.
func withEngine(ctx context.Context, fn func(context.Context, *client.Client) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("redistest: no client for the Docker engine: %w", err)
	}
	defer func() { err = errors.Join(err, cli.Close()) }()
	return fn(ctx, cli.Client)
}
