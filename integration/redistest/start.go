package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

const (
	// DefaultImage is what a node runs when REDLOCK_TEST_IMAGE names nothing else.
	DefaultImage = "redis:7"

	// Label marks each container of this package.
	Label = "go-redlock-test"

	loopback  = "127.0.0.1"
	redisPort = "6379/tcp"

	// startTimeout bounds creation and first PING of a node, and the pull of the image where that is needed.
	startTimeout = 2 * time.Minute
)

// Start runs n Redis servers, each in a container of its own, and returns when every one of them answers PING. They keep nothing on
// disk, so a restart brings a node back empty; args are appended to the server's command line and win over that, e.g.
// "--appendonly", "yes". The containers are removed when the test ends.
func Start(t testing.TB, n int, args ...string) []*Node {
	t.Helper()
	return startAll(t, n, nil, testcontainers.WithCmd(append(slices.Clone(standalone), args...)...))
}

// startAll runs n nodes at once; dial is what an administrator needs to reach them.
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
		t.Fatalf("redistest: %d nodes of image %s were asked for: %v", n, image(), err)
	}
	return nodes
}

// standalone is the command line of a master that keeps nothing.
var standalone = []string{"--save", "", "--appendonly", "no", "--protected-mode", "no"}

// StartSentinel runs a Redis Sentinel that watches nothing, as [Start] does a server.
func StartSentinel(t testing.TB) *Node {
	t.Helper()
	requireEngine(t)
	const file = "/data/sentinel.conf" // it can't do without one that it may write
	n, err := start(
		t, nil,
		testcontainers.WithEntrypoint("redis-server"),
		testcontainers.WithCmd(file, "--sentinel"),
		testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader("port 6379\nprotected-mode no\n"), ContainerFilePath: file, FileMode: 0o666,
		}),
	)
	if err != nil {
		t.Fatalf("redistest: a Sentinel of image %s was asked for: %v", image(), err)
	}
	return n
}

// start runs one node on a port that is free, and takes another port when somebody else was quicker.
func start(t testing.TB, dial []redis.DialOption, how ...testcontainers.ContainerCustomizer) (*Node, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	const attempts = 5
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ctr, err := run(ctx, port, how)
		// Also a container that could not be started exists and has to go. A grace period would only delay the
		// end of the test: nothing on these servers is worth saving.
		testcontainers.CleanupContainer(t, ctr, testcontainers.StopTimeout(0))
		if err == nil {
			n := &Node{id: ctr.GetContainerID(), port: port, dial: dial}
			return n, n.awaitPing(ctx)
		}
		if attempt == attempts || !portTaken(err) {
			return nil, err
		}
	}
}

// run creates and starts one container. It uses no wait strategy of testcontainers: those look for a line in the log, which an
// earlier start of a restarted container has already written, or need a shell inside of the image.
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

// Ports come from below the range that systems hand to outgoing connections (from 32768 on Linux, from 49152 elsewhere). A port in
// that range, free while its node is down, may be given to anybody who dials, and a client that dials the dead node over and over may
// be given that very port and connect to itself.
const (
	firstPort = 20000
	lastPort  = 32767
)

// nextPort counts up from a random place, so that no two nodes of this process ever get the same port, not even while one is down.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(lastPort - firstPort + 1)) }

func freePort() (int, error) {
	var errs []error
	for range 100 {
		port := firstPort + int(nextPort.Add(1)%(lastPort-firstPort+1))
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("redistest: no free port between %d and %d: %w", firstPort, lastPort, errors.Join(errs...))
}

// portTaken tells whether the engine refused a container because of its port. It answers with text and nothing else to go by.
func portTaken(err error) bool {
	return strings.Contains(err.Error(), "port is already allocated") || strings.Contains(err.Error(), "address already in use")
}
