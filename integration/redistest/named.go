package redistest

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// Named is a network of Docker on which servers have names, which only programs on that network can look up.
type Named struct{ *Network }

// NamedServer is a server of a [Named] network.
type NamedServer struct {
	Name  string
	Files map[string]string // what is in them, by their paths
	Args  []string          // all of the server's arguments
	Dial  []redis.DialOption
}

// StartNamed creates a network.
func StartNamed(t testing.TB) *Named {
	t.Helper()
	requireEngine(t)
	return &Named{newNetwork(t, false)}
}

// Servers starts servers at once. /run is a folder in memory for them.
func (w *Named) Servers(t testing.TB, servers ...NamedServer) []*Node {
	t.Helper()
	nodes, errs := make([]*Node, len(servers)), make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		l := launch{onNetwork: true, whole: true, args: s.Args, dial: s.Dial, how: []testcontainers.ContainerCustomizer{
			testcontainers.WithEntrypoint("redis-server"), files(s.Files),
			testcontainers.WithTmpfs(map[string]string{"/run/redlock": ""}),
		}}
		all.Go(func() { nodes[i], errs[i] = l.start(t) })
	}
	all.Wait()
	for i, n := range nodes {
		if errs[i] != nil {
			t.Fatalf("redistest: server %s: %v", servers[i].Name, errs[i])
		}
		n.notReusable.Store(true)
		w.connect(t, n, servers[i].Name)
	}
	return nodes
}

// Move stops a server, and starts it again under another address with the same name. It returns the addresses.
func (w *Named) Move(t testing.TB, n *Node, name string) (from, to string) {
	t.Helper()
	from = w.address(t, n)
	n.Stop(t)
	w.disconnect(t, n, "move")
	// It takes the address that is now free, if that would be the next.
	placeholder := launch{onNetwork: true}
	other, err := placeholder.start(t)
	if err != nil {
		machineFailed(t, "start a placeholder", err)
	}
	other.notReusable.Store(true)
	w.connect(t, other)
	w.connect(t, n, name)
	n.Restart(t)
	to = w.address(t, n)
	if from == to {
		t.Fatalf("redistest: %s has the address that it had, %s", name, to)
	}
	return from, to
}

// address returns a server's address on the network.
func (w *Named) address(t testing.TB, n *Node) (address string) {
	t.Helper()
	n.fault(t, "inspect", notBy, func(ctx context.Context, cli *client.Client) error {
		found, err := cli.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{})
		if err == nil {
			for _, e := range found.Container.NetworkSettings.Networks {
				if e.NetworkID == w.id {
					address = e.IPAddress.String()
				}
			}
		}
		return err
	})
	return address
}

// ReadySince returns when the server last said that it is ready, by its own log.
func (n *Node) ReadySince(t testing.TB) time.Time {
	t.Helper()
	out, _ := logs(t, n.id)
	var ready time.Time
	for line := range strings.Lines(out) {
		// 1:M 28 Nov 2026 01:58:49.707 * Ready to accept connections tcp
		if before, _, ok := strings.Cut(line, " * Ready to accept connections"); ok {
			if words := strings.SplitN(before, " ", 2); len(words) == 2 {
				ready, _ = time.Parse("02 Jan 2006 15:04:05.000", words[1])
			}
		}
	}
	if ready.IsZero() {
		t.Fatalf("redistest: node %s was never ready:\n%s", n.Addr(), out)
	}
	return ready
}

// Program is a program that runs in a container on a [Named] network.
type Program struct{ id string }

// Start starts a program of an image.
func (w *Named) Start(t testing.TB, image string, entrypoint, args []string, env, content map[string]string) *Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	ctr, err := testcontainers.Run(ctx, image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithLabels(map[string]string{Label: runLabel()}),
		testcontainers.WithEntrypoint(entrypoint...), testcontainers.WithCmd(args...), testcontainers.WithEnv(env),
		files(content),
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.NetworkMode, hc.CgroupParent = container.NetworkMode(w.id), Parent()
			// Docker asks this server for names that it does not know, as that of a server that is stopped. Nobody answers
			// there, at once. Others can't be reached from this network, and each look-up would take seconds.
			hc.DNS = []netip.Addr{netip.MustParseAddr(loopback)}
		}),
	)
	if ctr != nil {
		t.Cleanup(func() { _ = testcontainers.TerminateContainer(ctr, testcontainers.StopTimeout(0)) })
	}
	if err != nil {
		machineFailed(t, "start a program", err)
	}
	return &Program{ctr.GetContainerID()}
}

// Wait waits for the end of the program, and returns its status and what it printed.
func (p *Program) Wait(t testing.TB) (status int, out, errs string) {
	t.Helper()
	for !p.Ended(t) {
		time.Sleep(50 * time.Millisecond)
	}
	err := withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
		found, err := cli.ContainerInspect(ctx, p.id, client.ContainerInspectOptions{})
		if err == nil {
			status = found.Container.State.ExitCode
		}
		return err
	})
	if err != nil {
		machineFailed(t, "wait for a program", err)
	}
	out, errs = p.Logs(t)
	return status, out, errs
}

// Ended reports whether the program has ended.
func (p *Program) Ended(t testing.TB) (ended bool) {
	t.Helper()
	err := withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
		found, err := cli.ContainerInspect(ctx, p.id, client.ContainerInspectOptions{})
		ended = err == nil && !found.Container.State.Running
		return err
	})
	if err != nil {
		machineFailed(t, "look at a program", err)
	}
	return ended
}

// Logs returns what the program printed so far.
func (p *Program) Logs(t testing.TB) (out, errs string) {
	t.Helper()
	return logs(t, p.id)
}

// Stop ends the program with SIGTERM, and waits for its end.
func (p *Program) Stop(t testing.TB) {
	t.Helper()
	err := withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerStop(ctx, p.id, client.ContainerStopOptions{})
		return err
	})
	if err != nil {
		machineFailed(t, "stop a program", err)
	}
}

func logs(t testing.TB, id string) (out, errs string) {
	t.Helper()
	err := repeated(t.Context(), func() error {
		return withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
			from, err := cli.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
			if err != nil {
				return err
			}
			defer func() { _ = from.Close() }()
			var o, e bytes.Buffer
			_, err = stdcopy.StdCopy(&o, &e, from)
			out, errs = o.String(), e.String()
			return err
		})
	}, neverFinal)
	if err != nil {
		machineFailed(t, "read a log", err)
	}
	return out, errs
}

// files puts files into a container, which everyone in it may read.
func files(content map[string]string) testcontainers.CustomizeRequestOption {
	return func(r *testcontainers.GenericContainerRequest) error {
		for path, text := range content { // a new reader for each container, because the first one drains its reader
			r.Files = append(r.Files, testcontainers.ContainerFile{
				Reader: strings.NewReader(text), ContainerFilePath: path,
				FileMode: 0o644,
			})
		}
		return nil
	}
}
