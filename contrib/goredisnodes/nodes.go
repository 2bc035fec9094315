package goredisnodes

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
)

// Nodes are what redlock.New takes.
type Nodes []*pool.Node

// Open makes a node for each client, in their order. It takes what [Config] takes, and fails where
// Config or pool.Open do. The nodes dial in the background, so a server that cannot be reached is
// no error. After an error no node is left open. The Locker's Close closes the nodes.
//
// Each client must lead to another server, because a server has one vote. Two clients with one
// address are an error, even if their databases differ. Clients whose Dialers lead to different
// servers under one address need different names: use Config, set pool.Config.Name, and call
// pool.Open.
//
// It is safe for concurrent use.
func Open(clients ...redis.UniversalClient) (Nodes, error) {
	if len(clients) == 0 {
		return nil, errors.New("goredisnodes: no clients: at least one is needed, usually 3 or 5")
	}
	configs := make([]pool.Config, len(clients))
	for i, client := range clients {
		var err error
		if configs[i], err = config(client); err != nil {
			return nil, fmt.Errorf("goredisnodes: client %d of %d: %w", i+1, len(clients), err)
		}
	}
	if err := checkDistinct(configs); err != nil {
		return nil, err
	}
	nodes := make(Nodes, 0, len(configs))
	for i, cfg := range configs {
		node, err := pool.Open(cfg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("goredisnodes: client %d of %d: %w", i+1, len(clients), err), nodes.Close())
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// Close closes the nodes, and no client of go-redis. It is for nodes that no Locker took, such as after an
// error of redlock.New. It does not wait for servers. It may be called more than once.
func (n Nodes) Close() error {
	var errs []error
	for _, node := range n {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}

// checkDistinct refuses two clients that have an address in common.
func checkDistinct(configs []pool.Config) error {
	first := make(map[string]int)
	for i, cfg := range configs {
		addresses := []string{cfg.Address}
		if of, ok := cfg.Kind.(*cluster.Config); ok {
			addresses = of.Addresses
		}
		for _, address := range addresses {
			j, seen := first[address]
			if seen && j != i {
				return fmt.Errorf("goredisnodes: clients %d and %d lead to the same server: %v and %v", j+1, i+1, configs[j], cfg)
			}
			first[address] = i
		}
	}
	return nil
}
