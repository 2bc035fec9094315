//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/load"
	"github.com/quorumlock/go-redlock/integration/peers/servers"
)

// A stage is servers for one measurement of one contestant, and what stands before them. No two measurements share one.
type stage struct {
	servers []*servers.Server
	nodes   []string // in place of servers of our own
	proxies []io.Closer
	spec    load.Spec
	fault   fault
}

// setUp starts the servers of a workload, unless it is given some.
func setUp(ctx context.Context, w workload, kind string, nodes []string) (s *stage, err error) {
	s = &stage{spec: w.load, fault: w.fault, nodes: nodes}
	s.spec.Adapter = kind
	if len(nodes) > 0 {
		return s, s.place(w, nodes[:w.servers])
	}
	if s.servers, err = servers.Start(ctx, w.servers); err != nil {
		return nil, err
	}
	addrs := make([]string, len(s.servers))
	for i, server := range s.servers {
		addrs[i] = server.Addr
		s.spec.PIDs = append(s.spec.PIDs, server.PID())
	}
	return s, s.place(w, addrs)
}

// place puts what the workload says before the servers.
func (s *stage) place(w workload, addrs []string) error {
	for i, addr := range addrs {
		ill := w.fault != healthy && i == len(addrs)-1
		proxied, err := s.proxyFor(addr, w, ill)
		if err != nil {
			return err
		}
		s.spec.Servers = append(s.spec.Servers, proxied)
		if !ill { // the dead count nothing
			s.spec.Asked = append(s.spec.Asked, addr)
		}
	}
	return nil
}

// proxyFor returns the address at which a contestant reaches a server.
func (s *stage) proxyFor(addr string, w workload, ill bool) (string, error) {
	switch {
	case ill && w.fault == blackholed:
		h, err := servers.NewBlackhole()
		if err != nil {
			return "", err
		}
		s.proxies = append(s.proxies, h)
		return h.Addr(), nil
	case w.delay > 0:
		d, err := servers.NewDelay(addr, w.delay)
		if err != nil {
			return "", err
		}
		s.proxies = append(s.proxies, d)
		return d.Addr(), nil
	}
	return addr, nil
}

// strike does to the last server what the workload says, now that everybody is connected.
func (s *stage) strike() error {
	switch s.fault {
	case frozen:
		return s.servers[len(s.servers)-1].Freeze()
	case dead:
		return s.servers[len(s.servers)-1].Kill()
	}
	return nil
}

func (s *stage) clear() error {
	var errs []error
	for _, d := range s.proxies {
		errs = append(errs, d.Close())
	}
	errs = append(errs, empty(context.Background(), s.nodes))
	return errors.Join(append(errs, servers.Stop(s.servers))...)
}

// limit is how long one measurement may take beyond its own time: some contestants wait for a frozen server for a long time.
const limit = 40 * time.Second

// measure measures one contestant once.
func measure(ctx context.Context, w workload, kind string, nodes []string) (r load.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.load.For+limit)
	defer cancel()
	s, err := setUp(ctx, w, kind, nodes)
	if s != nil {
		defer func() { err = errors.Join(err, s.clear()) }()
	}
	if err != nil {
		return r, err
	}

	var crew []*worker
	defer func() {
		for _, one := range crew {
			if err != nil {
				one.kill()
			}
			err = errors.Join(err, one.dismiss())
		}
	}()
	for range max(1, w.processes) {
		one, err := hire(ctx, s.spec)
		if err != nil {
			return r, err
		}
		crew = append(crew, one)
	}
	if err := s.strike(); err != nil {
		return r, err
	}
	return runAll(crew)
}

// runAll has all processes work at once.
func runAll(crew []*worker) (load.Result, error) {
	for _, w := range crew {
		if err := w.begin(); err != nil {
			return load.Result{}, err
		}
	}
	list := make([]load.Result, len(crew))
	for i, w := range crew {
		var err error
		if list[i], err = w.result(); err != nil {
			return load.Result{}, fmt.Errorf("a contestant's process told nothing: %w", err)
		}
	}
	return load.Merge(list), nil
}
