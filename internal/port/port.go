package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Ports are below the range that systems use for outgoing connections (from 32768 on Linux, from
// 49152 elsewhere). The system may give a port in that range, while its node is down, to any
// process that dials. A client that dials the dead node again and again may be given that same port
// and connect to itself.
const (
	firstPort = 20000
	lastPort  = 32767
)

// nextPort counts up from a random port, so no two nodes of this process ever have the same port,
// not even while one of them is down.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(lastPort - firstPort + 1)) }

// port is the port of a node. While the node is down another process could be given it, and clients of
// the node would reach that process's server. So the UDP port of the same number, which no server uses,
// is kept as well. It is a reservation that each test process respects, and that ends with the process.
type port struct {
	number int
	kept   net.PacketConn
}

func (p port) free() {
	if p.kept != nil {
		_ = p.kept.Close()
	}
}

func freePort() (port, error) {
	var errs []error
	for range 100 {
		number := firstPort + int(nextPort.Add(1)%(lastPort-firstPort+1))
		address := net.JoinHostPort(loopback, strconv.Itoa(number))
		kept, err := net.ListenPacket("udp", address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l, err := net.Listen("tcp", address)
		if err == nil {
			return port{number, kept}, l.Close()
		}
		errs = append(errs, err, kept.Close())
	}
	return port{}, fmt.Errorf("redistest: no free port between %d and %d: %w", firstPort, lastPort, errors.Join(errs...))
}
