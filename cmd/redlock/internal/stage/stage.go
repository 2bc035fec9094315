package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// Stage is the set of nodes that the demo uses: its own, or those of --nodes.
type Stage struct {
	Configs []pool.Config
	lines   []*cuttableDialer
	masters []*fakeredis.Master // nil with --nodes
	prefix  string              // of all keys
}

// Open makes a stage of the given nodes, or of three nodes in this process, on which clients can be made.
func Open(nodes cli.NodeList, prefix string) (s *Stage, err error) {
	if len(nodes.URLs) == 0 {
		s, err = own()
	} else {
		s = &Stage{}
		if err = s.use(nodes); err != nil {
			err = fmt.Errorf("%w: %w", redlock.ErrInvalid, err)
		}
	}
	if err != nil {
		return nil, err
	}
	s.prefix = prefix
	_, end, err := s.Client("")
	if err != nil {
		s.Close()
		return nil, err
	}
	end()
	return s, nil
}

// own starts three nodes in this process.
func own() (*Stage, error) {
	s := &Stage{}
	for i := range 3 {
		m, err := fakeredis.Start(fmt.Sprintf("node-%d", i+1))
		if err != nil {
			s.Close()
			return nil, err
		}
		s.masters = append(s.masters, m)
	}
	if err := s.use(cli.NodeList{URLs: s.urls()}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// urls are those of the nodes inside this process.
func (s *Stage) urls() (all []string) {
	for _, m := range s.masters {
		all = append(all, m.URL()+"?name="+m.Name())
	}
	return all
}

// use has clients use these nodes.
func (s *Stage) use(nodes cli.NodeList) (err error) {
	if s.Configs, err = nodes.Configs(); err != nil {
		return err
	}
	for i := range s.Configs {
		cfg, l := &s.Configs[i], &cuttableDialer{}
		if cfg.Name == "" { // the default, which votes contain
			cfg.Name = fmt.Sprintf("%s/%d", cfg.Address, cfg.Database)
		}
		cfg.Dial = l.dial
		s.lines = append(s.lines, l)
	}
	return nil
}

// stageTimeout is the node timeout. It is longer than the default, because the nodes, the clients
// and other programs may share one core. The acts do not depend on it: a node that is down refuses
// connections at once.
const stageTimeout = time.Second

// Client makes a program that uses locks: a Locker with connections of its own.
func (s *Stage) Client(owner string, opts ...redlock.Option) (l *redlock.Locker, end func(), err error) {
	var nodes []*pool.Node
	closeAll := func() {
		for _, n := range nodes {
			_ = n.Close()
		}
	}
	for _, cfg := range s.Configs {
		n, err := pool.Open(cfg)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		nodes = append(nodes, n)
	}
	l, err = redlock.New(nodes, append(opts,
		redlock.WithKeyPrefix(s.prefix), redlock.WithOwner(owner), redlock.WithNodeTimeout(cli.Slowed(stageTimeout)))...)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return l, func() { cli.CloseSoon(l) }, nil
}

// Embedded reports whether the nodes are inside this process.
func (s *Stage) Embedded() bool { return s.masters != nil }

// Spare reports whether one node can fail and leave a quorum.
func (s *Stage) Spare() bool { return len(s.Configs)-1 >= quorum.Majority(len(s.Configs)) }

// Fail makes a node fail for the clients of the demo. It does not touch a node of --nodes itself.
func (s *Stage) Fail(i int) {
	if s.masters != nil {
		s.masters[i].Stop()
		return
	}
	s.lines[i].cut()
}

// Mend ends a failure. An embedded node comes back empty, like a server without persistence.
func (s *Stage) Mend(i int) error {
	if s.masters != nil {
		return s.masters[i].Restart(false)
	}
	s.lines[i].mend()
	return nil
}

// Leftovers returns an error that names the keys that are left of these names.
func (s *Stage) Leftovers(ctx context.Context, names []string) error {
	l, end, err := s.Client("")
	if err != nil {
		return err
	}
	defer end()
	var all []error
	for _, name := range names {
		st, err := l.Inspect(ctx, name)
		for errors.Is(err, redlock.ErrNoQuorum) && cli.Rest(ctx, 50*time.Millisecond) == nil {
			st, err = l.Inspect(ctx, name) // a busy machine
		}
		if err != nil {
			return err
		}
		for _, n := range st.Nodes {
			if n.Held {
				all = append(all, fmt.Errorf("%s is left on %s", name, n.Node))
			}
		}
	}
	return oneline.Join(all...)
}

// Close ends the nodes inside this process.
func (s *Stage) Close() {
	for _, m := range s.masters {
		m.Close()
	}
}

// Nodes returns the given nodes, or starts three in this process.
func Nodes(inv *cli.Invocation, inside bool) (nodes cli.NodeList, end func(), err error) {
	if !inside {
		nodes, err = inv.Nodes()
		return nodes, func() {}, err
	}
	if inv.NodesGiven() {
		return nodes, nil, cli.ErrEmbedded
	}
	s, err := own()
	if err != nil {
		return nodes, nil, err
	}
	nodes.URLs = s.urls()
	return nodes, s.Close, nil
}
