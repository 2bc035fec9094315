package pool

import (
	"errors"
	"net"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// served is a range of slots and the address of its master.
type served struct {
	first, last int
	address     string
}

var errNoMap = errors.New("it has no map of any slots: perhaps it has left its Cluster, or belongs to none yet")

// slots reads what CLUSTER SLOTS answered. A master without a host is reached as who was
// asked.
func slots(reply any, err error, asked string) (all []served, _ error) {
	list, err := redis.Values(reply, err)
	if err != nil {
		return nil, serverError(err)
	}
	host, _, _ := net.SplitHostPort(asked)
	for _, entry := range list {
		parts, _ := redis.Values(entry, nil)
		if len(parts) < 3 {
			return nil, errProtocol
		}
		first, err1 := redis.Int(parts[0], nil)
		last, err2 := redis.Int(parts[1], nil)
		master, err3 := redis.Values(parts[2], nil)
		if errors.Join(err1, err2, err3) != nil || first < 0 || last >= wire.Slots || len(master) < 2 {
			return nil, errProtocol
		}
		name, _ := redis.String(master[0], nil)
		port, _ := redis.Int(master[1], nil)
		if name == "" {
			name = host
		}
		if name == "?" || port == 0 {
			continue // it has no name that anybody could use
		}
		all = append(all, served{first, last, net.JoinHostPort(name, strconv.Itoa(port))})
	}
	if len(all) == 0 {
		return nil, errNoMap
	}
	return all, nil
}
