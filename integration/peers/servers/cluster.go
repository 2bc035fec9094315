//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// slots is the number of slots of a Cluster.
const slots = 16384

// StartClusters runs n Clusters of so many masters each, which share the slots evenly. It needs Redis 7, where the
// second port of a member can be chosen. The members of the first Cluster come first.
func StartClusters(ctx context.Context, n, masters int) ([]*Server, error) {
	var all []*Server
	for range n {
		members, err := startCluster(ctx, masters)
		all = append(all, members...)
		if err != nil {
			return nil, errors.Join(err, Stop(all))
		}
	}
	return all, nil
}

func startCluster(ctx context.Context, masters int) (members []*Server, err error) {
	var buses []string
	for range masters {
		_, bus, err := freePort()
		if err != nil {
			return members, err
		}
		started, err := Start(ctx, 1, "--cluster-enabled", "yes", "--cluster-port", bus)
		if err != nil {
			return members, err
		}
		members, buses = append(members, started...), append(buses, bus)
	}
	for i, m := range members {
		commands := [][]any{
			{"CLUSTER", "SET-CONFIG-EPOCH", i + 1},
			{"CLUSTER", "ADDSLOTSRANGE", i * slots / masters, (i+1)*slots/masters - 1},
		}
		for k, other := range members[:i] {
			_, port, _ := net.SplitHostPort(other.Addr)
			commands = append(commands, []any{"CLUSTER", "MEET", "127.0.0.1", port, buses[k]})
		}
		for _, c := range commands {
			if _, err := m.do(ctx, c); err != nil {
				return members, err
			}
		}
	}
	for _, m := range members {
		if err := m.awaitCluster(ctx, masters); err != nil {
			return members, err
		}
	}
	return members, nil
}

// do sends one command to a server.
func (s *Server) do(ctx context.Context, words []any) (any, error) {
	c, err := redis.DialContext(ctx, "tcp", s.Addr, redis.DialReadTimeout(startWithin))
	if err != nil {
		return nil, err
	}
	reply, err := c.Do(fmt.Sprint(words[0]), words[1:]...)
	return reply, errors.Join(err, c.Close())
}

// awaitCluster returns when a member knows all masters and all slots.
func (s *Server) awaitCluster(ctx context.Context, masters int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*startWithin)
	defer cancel()
	for {
		info, err := redis.String(s.do(ctx, []any{"CLUSTER", "INFO"}))
		if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", masters)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("servers: the Cluster of %s is not complete: %w", s.Addr, errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
