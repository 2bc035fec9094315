// Package port reserves ports for servers of tests and of the demo that stop and start again at the same
// address.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Ports are below the range that systems use for outgoing connections (from 32768 on Linux, from
// 49152 elsewhere). The system may give a port in that range, while its server is down, to any
// process that dials. A client that dials the dead server again and again may be given that same port
// and connect to itself.
const (
	first = 20000
	last  = 32767
)

// next counts up from a random port, so a port is given again late.
var next atomic.Int64

func init() { next.Store(rand.Int64N(last - first + 1)) }

// Port is the port of a server on 127.0.0.1. While the server is down another process could be given it, and
// clients of the server would reach that process's server. So the UDP port of the same number, which no
// server uses, is kept as well. It is a reservation that each process that uses this package respects, and
// that ends with the process.
type Port struct{ Number int }

// kept has the UDP socket of each reserved port. A reservation does not end with the last use of its Port.
var kept sync.Map

// Reserve returns a port that no server uses.
func Reserve() (Port, error) {
	p, _, err := ReserveTwo(0)
	return p, err
}

// ReserveTwo returns two ports that no server uses, the second as many numbers above the first as it is told.
// For 0 they are one.
func ReserveTwo(apart int) (Port, Port, error) {
	var errs []error
	for range 100 {
		number := first + int(next.Add(1)%int64(last-first-apart+1))
		p, err := reserve(number)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if apart == 0 {
			return p, p, nil
		}
		second, err := reserve(number + apart)
		if err == nil {
			return p, second, nil
		}
		p.Free()
		errs = append(errs, err)
	}
	return Port{}, Port{}, fmt.Errorf("port: none is free between %d and %d: %w", first, last, errors.Join(errs...))
}

// reserve reserves the port with a number, unless a process has it.
func reserve(number int) (p Port, err error) {
	p.Number = number
	udp, err := net.ListenPacket("udp", p.Addr())
	if err != nil {
		return Port{}, err
	}
	l, err := net.Listen("tcp", p.Addr())
	if err != nil {
		return Port{}, errors.Join(err, udp.Close())
	}
	kept.Store(number, udp)
	return p, l.Close()
}

// Addr returns 127.0.0.1 and the port.
func (p Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Listen listens on the port. While the port is in use it tries again, for about 10 seconds: a child process has
// copies of all sockets of this process until it executes its program, so a listener that was just closed may
// still exist there.
func (p Port) Listen() (l net.Listener, err error) {
	for range 10_000 {
		l, err = net.Listen("tcp", p.Addr())
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // a child of the operating system starts in real time
	}
	return l, err
}

// Free ends the reservation. The zero Port has none.
func (p Port) Free() {
	if udp, ok := kept.LoadAndDelete(p.Number); ok {
		_ = udp.(net.PacketConn).Close()
	}
}
