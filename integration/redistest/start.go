package redistest

import (
	"cmp"
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

	loopback = "127.0.0.1"

	// innerPort is the port of a server on a network of Docker.
	innerPort = "6379"

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
	return startAll(t, n, launch{args: args})
}

// StartOnNetwork is [Start] on a network of Docker, also where servers could be on the machine's: for tests
// that call [Node.Disconnect], and for servers whose clients must not have a loopback address.
func StartOnNetwork(t testing.TB, n int, args ...string) []*Node {
	t.Helper()
	nodes := startAll(t, n, launch{args: args, onNetwork: true})
	beLate(t, nodes)
	return nodes
}

// StartSentinel starts a Redis Sentinel that watches nothing, as [Start] starts a server.
func StartSentinel(t testing.TB) *Node {
	t.Helper()
	return startSentinel(t, false)
}

func startSentinel(t testing.TB, onNetwork bool) *Node {
	t.Helper()
	const file = "/data/sentinel.conf" // a Sentinel needs a writable configuration file
	return startAll(t, 1, launch{
		onNetwork: onNetwork,
		args:      []string{"--sentinel"},
		how: []testcontainers.ContainerCustomizer{
			testcontainers.WithEntrypoint("redis-server", file),
			testcontainers.WithFiles(testcontainers.ContainerFile{Reader: strings.NewReader(""), ContainerFilePath: file, FileMode: 0o666}),
		},
	})[0]
}

// launch says what runs in a container.
type launch struct {
	args       []string           // of the server, behind the defaults
	portOption string             // for the port on which it listens: "--port" if empty
	cluster    bool               // it listens on a second port, for the others of its Cluster
	onNetwork  bool               // it is on a network of Docker, also where it could be on the machine's
	dial       []redis.DialOption // by which an administrator reaches it
	how        []testcontainers.ContainerCustomizer
	whole      bool // args are all arguments: there are no defaults
}

// startAll starts n nodes at once.
func startAll(t testing.TB, n int, l launch) []*Node {
	t.Helper()
	requireEngine(t)
	nodes, errs := make([]*Node, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { nodes[i], errs[i] = l.start(t) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("redistest: start %d nodes of image %s: %v", n, image(), err)
	}
	return nodes
}

// start starts one node on a free port. It tries another port and container if the engine fails or the
// server does not answer: a process may have taken the port meanwhile, or the machine is too busy.
func (l launch) start(t testing.TB) (*Node, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		n := &Node{dial: l.dial, onMachine: onMachine() && !l.onNetwork}
		var err error
		if n.port, err = l.reserve(n.onMachine); err != nil {
			return nil, err
		}
		n.ctr, err = testcontainers.Run(ctx, image(), l.container(n)...)
		t.Cleanup(func() { n.recycle(t) }) // a container that could not be started exists as well
		if err == nil {
			n.id = n.ctr.GetContainerID()
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

// reserve reserves the port at which the test reaches the server, and on the machine's network the second
// one of a server in a Cluster, which is that port and busApart. Reservations end with the process: other
// servers may still dial the port when the server is gone.
func (l launch) reserve(onMachine bool) (port.Port, error) {
	if l.cluster && onMachine {
		p, _, err := port.ReserveTwo(busApart)
		return p, err
	}
	return port.Reserve()
}

// busApart is the difference between the two ports of a server in a Cluster, from Redis's documentation of
// Clusters.
const busApart = 10_000

// container is how a node's container is created. It does not use the wait strategies of testcontainers.
// Those look for a line in the log, which an earlier start of a restarted container has already
// written, or need a shell inside the image.
func (l launch) container(n *Node) []testcontainers.ContainerCustomizer {
	portOption := cmp.Or(l.portOption, "--port")
	args := []string{portOption, innerPort}
	how := append(
		slices.Clone(l.how),
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithLabels(map[string]string{Label: runLabel()}),
	)
	if n.onMachine {
		args = []string{portOption, strconv.Itoa(n.port.Number), "--bind", loopback}
		how = append(how, testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.NetworkMode, hc.CgroupParent = network.NetworkHost, Parent()
		}))
	} else {
		how = append(how, testcontainers.WithExposedPorts(innerPort+"/tcp"), testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.CgroupParent = Parent()
			hc.PortBindings = network.PortMap{network.MustParsePort(innerPort + "/tcp"): {
				{HostIP: netip.MustParseAddr(loopback), HostPort: strconv.Itoa(n.port.Number)},
			}}
		}))
	}
	args = append(args, "--save", "", "--appendonly", "no", "--protected-mode", "no") // a master without persistence
	if l.whole {
		args = nil
	}
	return append(how, testcontainers.WithCmd(append(args, l.args...)...))
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
