package adapters

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// fanout sends the commands of a Redlock to all servers and reads the replies. It has no token and
// no timeout, and ignores what the replies say. It shows the cost of a client that takes a
// connection from a pool for each command.
var fanout = Kind{
	Name:  "bare fan-out, redigo",
	Note:  "no lock",
	Limit: true,
	Sends: plainCommands,
	Open: func(_ context.Context, servers []string, o Options) (Adapter, error) {
		f := fanoutClient{pools: make([]*redis.Pool, len(servers)), ttl: o.ttl()}
		for i, server := range servers {
			f.pools[i] = redigoPool(server, o)
		}
		return f, f.ask(func(c redis.Conn) error { return c.Send("SCRIPT", "LOAD", releaseSource) })
	},
}

// fanoutClient has a pool for each server.
type fanoutClient struct {
	pools []*redis.Pool
	ttl   time.Duration
}

const fanoutToken = "0123456789abcdef0123456789abcdef"

// releaseSource is the release script of the Redis documentation.
const releaseSource = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

var compareAndDelete = redis.NewScript(1, releaseSource)

func (f fanoutClient) Acquire(_ context.Context, name string) (Hold, error) {
	if err := f.ask(func(c redis.Conn) error {
		return c.Send("SET", name, fanoutToken, "NX", "PX", f.ttl.Milliseconds())
	}); err != nil {
		return nil, err
	}
	return &fanoutHold{client: f, name: name}, nil
}

func (f fanoutClient) Try(ctx context.Context, name string) (Hold, error) {
	return f.Acquire(ctx, name)
}

// ask sends one command to each server, then reads one reply of each.
func (f fanoutClient) ask(send func(redis.Conn) error) error {
	conns := make([]redis.Conn, len(f.pools))
	var err error // the first error
	for i, p := range f.pools {
		conns[i] = p.Get()
		err = cmp.Or(err, send(conns[i]), conns[i].Flush())
	}
	for _, c := range conns {
		_, bad := c.Receive()
		err = cmp.Or(err, bad, c.Close())
	}
	return err
}

func (f fanoutClient) Close() error {
	var errs []error
	for _, p := range f.pools {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

type fanoutHold struct {
	client fanoutClient
	name   string
}

func (h *fanoutHold) Release(context.Context) error {
	return h.client.ask(func(c redis.Conn) error { return compareAndDelete.SendHash(c, h.name, fanoutToken) })
}
