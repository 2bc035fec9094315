//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/load"
	"github.com/quorumlock/go-redlock/integration/peers/servers"
)

// A testbed has the servers for one measurement of one adapter, and the proxies to them. No two
// measurements share a testbed.
type testbed struct {
	servers []*servers.Server
	nodes   []string // instead of servers of our own
	proxies []io.Closer
	spec    load.Spec
	far     []string // the addresses that the last process connects to, if it is farther away
	fault   fault
}

// setUp starts the servers of a workload, unless nodes are given.
func setUp(ctx context.Context, w workload, kind string, nodes []string) (b *testbed, err error) {
	b = &testbed{spec: w.load, fault: w.fault, nodes: nodes}
	b.spec.Adapter = kind
	if len(nodes) > 0 {
		return b, b.connect(w, nodes[:w.servers])
	}
	if w.masters > 0 {
		b.servers, err = servers.StartClusters(ctx, w.servers, w.masters)
	} else {
		b.servers, err = servers.Start(ctx, w.servers)
	}
	if err != nil {
		return nil, err
	}
	addrs := make([]string, len(b.servers))
	for i, server := range b.servers {
		addrs[i] = server.Addr
		b.spec.PIDs = append(b.spec.PIDs, server.PID())
	}
	if err := deny(ctx, addrs, w.lacks); err != nil {
		return b, err
	}
	if w.masters > 0 {
		b.spec.Asked = addrs
		for members := range slices.Chunk(addrs, w.masters) {
			b.spec.Servers = append(b.spec.Servers, strings.Join(members, ","))
		}
		return b, nil
	}
	return b, b.connect(w, addrs)
}

// connect starts the proxies that the workload needs, and fills in the addresses of the servers.
func (b *testbed) connect(w workload, addrs []string) error {
	for i, addr := range addrs {
		faulty := w.fault != healthy && i == len(addrs)-1
		proxied, err := b.proxyFor(addr, w, faulty)
		if err != nil {
			return err
		}
		b.spec.Servers = append(b.spec.Servers, proxied)
		if w.far > 0 {
			d, err := servers.NewDelay(addr, w.far)
			if err != nil {
				return err
			}
			b.proxies, b.far = append(b.proxies, d), append(b.far, d.Addr())
		}
		if !faulty { // a faulty server cannot be asked for its counters
			b.spec.Asked = append(b.spec.Asked, addr)
		}
	}
	return nil
}

// proxyFor returns the address at which an adapter reaches a server.
func (b *testbed) proxyFor(addr string, w workload, faulty bool) (string, error) {
	switch {
	case faulty && w.fault == blackholed:
		h, err := servers.NewBlackhole()
		if err != nil {
			return "", err
		}
		b.proxies = append(b.proxies, h)
		return h.Addr(), nil
	case w.delay > 0:
		d, err := servers.NewDelay(addr, w.delay)
		if err != nil {
			return "", err
		}
		b.proxies = append(b.proxies, d)
		return d.Addr(), nil
	}
	return addr, nil
}

// injectFault injects the fault of the workload into the last server. All adapters are connected by then.
func (b *testbed) injectFault() error {
	switch b.fault {
	case frozen:
		return b.servers[len(b.servers)-1].Freeze()
	case dead:
		return b.servers[len(b.servers)-1].Kill()
	}
	return nil
}

// tearDown closes the proxies, and stops the servers or empties the given ones.
func (b *testbed) tearDown() error {
	var errs []error
	for _, d := range b.proxies {
		errs = append(errs, d.Close())
	}
	errs = append(errs, empty(context.Background(), b.nodes))
	return errors.Join(append(errs, servers.Stop(b.servers))...)
}

// maxOverrun bounds how long a measurement may take beyond its own time. Some adapters wait long
// for a frozen server.
const maxOverrun = 40 * time.Second

// measure measures one adapter once.
func measure(ctx context.Context, w workload, kind string, nodes []string) (r load.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.load.For+maxOverrun)
	defer cancel()
	b, err := setUp(ctx, w, kind, nodes)
	if b != nil {
		defer func() { err = errors.Join(err, b.tearDown()) }()
	}
	if err != nil {
		return r, err
	}

	var workers []*worker
	defer func() {
		for _, one := range workers {
			if err != nil {
				one.kill()
			}
			err = errors.Join(err, one.wait())
		}
	}()
	for i := range max(1, w.processes) {
		spec := b.spec
		if b.far != nil && i == w.processes-1 {
			spec.Servers = b.far
		}
		one, err := startWorker(ctx, spec)
		if err != nil {
			return r, err
		}
		workers = append(workers, one)
	}
	if err := b.injectFault(); err != nil {
		return r, err
	}
	return runAll(workers)
}

// runAll runs all processes at once.
func runAll(workers []*worker) (load.Result, error) {
	for _, w := range workers {
		if err := w.begin(); err != nil {
			return load.Result{}, err
		}
	}
	list := make([]load.Result, len(workers))
	for i, w := range workers {
		var err error
		if list[i], err = w.result(); err != nil {
			return load.Result{}, fmt.Errorf("no result from an adapter's process: %w", err)
		}
	}
	return load.Merge(list), nil
}
