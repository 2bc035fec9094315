package cluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// noPort is in the place of an address that no client can use, like named.NoHost.
const (
	noPort = ":0"

	setHostname = "set cluster-announce-hostname on that server, or cluster-preferred-endpoint-type ip"
)

// gapOf returns why a range has no master that a client can use, or "" if it has one.
func gapOf(address string) string {
	switch address {
	case named.NoHost:
		return `the slot map names a master by the host "?": ` + setHostname
	case noPort:
		return "the slot map names a master by the port 0, because it serves either TLS or plain connections only, and this is one of the " +
			"other kind: use the Cluster's other scheme (redis+cluster, rediss+cluster), or give that server both ports"
	}
	return ""
}

// slotRange is a range of slots and the address of its master.
type slotRange struct {
	first, last int
	address     string
}

var errNoMap = errors.New("no slot map: the server may have left its Cluster, or not joined one yet")

// maxShards bounds the masters of a Cluster. Redis Clusters have at most 1,000 in practice:
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
const maxShards = 1024

var (
	errTooManyShards = fmt.Errorf("slot map with more than %d masters", maxShards)
	errOverlap       = errors.New("slot map with a slot of two masters")
)

// parseSlots parses the answer to CLUSTER SLOTS. A master without a host has the host that was
// queried. A map that no Cluster can have is refused as a whole.
func parseSlots(reply any, err error, asked string) (all []slotRange, _ error) {
	list, err := redis.Values(reply, err)
	if err != nil {
		return nil, resp.Clean(err)
	}
	// The host that was queried replaces an empty one in the reply, as the Cluster specification
	// demands.
	host, _, _ := net.SplitHostPort(asked)
	masters, taken := make(map[string]bool), [command.Slots]bool{}
	for _, entry := range list {
		parts, _ := redis.Values(entry, nil)
		// An entry is: first slot, last slot, the master, and any number of replicas, which are
		// ignored.
		if len(parts) < 3 {
			return nil, transport.ErrOutOfStep
		}
		first, err1 := redis.Int(parts[0], nil)
		last, err2 := redis.Int(parts[1], nil)
		master, err3 := redis.Values(parts[2], nil)
		// The server may be hostile. Each bound is checked before the value is used as an index or
		// a size.
		if errors.Join(err1, err2, err3) != nil || first < 0 || last < first || last >= command.Slots || len(master) < 2 {
			return nil, transport.ErrOutOfStep
		}
		for slot := first; slot <= last; slot++ {
			if taken[slot] {
				return nil, errOverlap
			}
			taken[slot] = true
		}
		name, _ := redis.String(master[0], nil)
		// A name of another type, such as nil, becomes empty. The host that was queried replaces
		// it. A port of another type becomes 0, and the entry is skipped.
		port, _ := redis.Int(master[1], nil)
		if name == "" {
			name = host
		}
		var address string
		switch {
		case name == named.NoHost:
			all = append(all, slotRange{first, last, named.NoHost})
			continue
		case port == 0:
			all = append(all, slotRange{first, last, noPort})
			continue
		}
		if address, err = named.Endpoint(name, strconv.Itoa(port)); err != nil {
			return nil, err
		}
		// Every master costs connections and goroutines, so their number is bounded before any is
		// made.
		if masters[address] = true; len(masters) > maxShards {
			return nil, errTooManyShards
		}
		all = append(all, slotRange{first, last, address})
	}
	// A map without masters would unassign all slots. It is taken for an error, and the present map
	// remains.
	switch {
	case len(masters) > 0:
		return all, nil
	case len(all) > 0:
		return nil, errors.New(gapOf(all[0].address))
	}
	return nil, errNoMap
}
