package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/quorumlock/go-redlock/internal/port"
)

const (
	// DefaultImage is the image of a node unless REDLOCK_TEST_IMAGE names another.
	DefaultImage = "redis:7"

	// Label marks all containers of this package.
	Label = "go-redlock-test"

	loopback  = "127.0.0.1"
	redisPort = "6379/tcp"

	// startTimeout bounds the creation of a node until its first PING, including the pull of the
	// image if necessary.
	startTimeout = 2 * time.Minute
)

// Start starts n Redis servers, each in its own container, and returns when all of them answer
// PING. They have no persistence, so a restart brings a node back empty. args are appended to the
// server's command line and override the defaults, for example "--appendonly", "yes". The
// containers are removed when the test ends. [Run] describes an exception.
//
// If REDLOCK_TEST_LATE has a seed, one of three or more nodes sees the requests of some clients late.
// Servers with TLS are never late, and those of a [Network] only after [Late].
func Start(t testing.TB, n int, args ...string) []*Node {
	t.Helper()
	nodes := started(t, n, args...)
	beLate(t, nodes)
	return nodes
}

func started(t testing.TB, n int, args ...string) []*Node {
	t.Helper()
	if len(args) > 0 || !idle.enabled {
		return startFresh(t, n, args...)
	}
	nodes := idle.pop(n)
	for _, n := range nodes {
		t.Cleanup(func() { n.recycle(t) })
	}
	if missing := n - len(nodes); missing > 0 {
		for _, n := range startFresh(t, missing) {
			n.memorize()
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// startFresh is [Start] without servers that other tests have used.
func startFresh(t testing.TB, n int, args ...string) []*Node {
	t.Helper()
	return startAll(t, n, nil, testcontainers.WithCmd(append(slices.Clone(standalone), args...)...))
}

// startAll starts n nodes at once. dial are the options by which an administrator reaches them.
func startAll(t testing.TB, n int, dial []redis.DialOption, how ...testcontainers.ContainerCustomizer) []*Node {
	t.Helper()
	requireEngine(t)
	nodes, errs := make([]*Node, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { nodes[i], errs[i] = start(t, dial, how...) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("redistest: start %d nodes of image %s: %v", n, image(), err)
	}
	return nodes
}

// standalone is the command line of a master without persistence.
var standalone = []string{"--save", "", "--appendonly", "no", "--protected-mode", "no"}

// StartSentinel starts a Redis Sentinel that watches nothing, as [Start] starts a server.
func StartSentinel(t testing.TB) *Node {
	t.Helper()
	requireEngine(t)
	const file = "/data/sentinel.conf" // a Sentinel needs a writable configuration file
	n, err := start(
		t, nil,
		testcontainers.WithEntrypoint("redis-server"),
		testcontainers.WithCmd(file, "--sentinel"),
		testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader("port 6379\nprotected-mode no\n"), ContainerFilePath: file, FileMode: 0o666,
		}),
	)
	if err != nil {
		t.Fatalf("redistest: start a Sentinel of image %s: %v", image(), err)
	}
	return n
}

// start starts one node on a free port. It tries another port and container if the engine fails or the
// server does not answer: a process may have taken the port meanwhile, or the machine is too busy.
func start(t testing.TB, dial []redis.DialOption, how ...testcontainers.ContainerCustomizer) (*Node, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		reserved, err := port.Reserve()
		if err != nil {
			return nil, err
		}
		ctr, err := run(ctx, reserved.Number, how)
		n := &Node{ctr: ctr, port: reserved, dial: dial}
		t.Cleanup(func() { n.recycle(t) }) // a container that could not be started exists as well
		if err == nil {
			n.id = ctr.GetContainerID()
			err = withEngine(ctx, func(ctx context.Context, cli *client.Client) error {
				if err := n.awaitPing(ctx); err != nil {
					return err
				}
				return n.findProcess(ctx, cli)
			})
			if err == nil {
				return n, nil
			}
		}
		if attempt == engineTries || ctx.Err() != nil {
			return nil, fmt.Errorf("the machine failed (Docker), and not the library: %w (%d tries)", err, attempt)
		}
	}
}

// run creates and starts one container. It does not use the wait strategies of testcontainers.
// Those look for a line in the log, which an earlier start of a restarted container has already
// written, or need a shell inside the image.
func run(ctx context.Context, port int, how []testcontainers.ContainerCustomizer) (*testcontainers.DockerContainer, error) {
	return testcontainers.Run(ctx, image(), append(
		slices.Clone(how),
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithLabels(map[string]string{Label: runLabel()}),
		testcontainers.WithExposedPorts(redisPort),
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.PortBindings = network.PortMap{network.MustParsePort(redisPort): {
				{HostIP: netip.MustParseAddr(loopback), HostPort: strconv.Itoa(port)},
			}}
		}),
	)...)
}

func image() string {
	if name := os.Getenv("REDLOCK_TEST_IMAGE"); name != "" {
		return name
	}
	return DefaultImage
}

func runLabel() string {
	if run := os.Getenv("REDLOCK_TEST_RUN"); run != "" {
		return run
	}
	return "direct"
}
