package stage

import (
	"context"
	"errors"
	"net"
	"sync"
)

// cuttableDialer dials one node and can cut its connections at this end. To this client the node is
// then down, and to other clients nothing has happened.
type cuttableDialer struct {
	mu    sync.Mutex // guards the fields below; only Close is called under it
	dead  bool
	conns []net.Conn
}

var errCut = errors.New("the demo has cut this connection")

// dial is a function for pool.Config.Dial.
func (l *cuttableDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.isDead() {
		return nil, errCut
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		_ = conn.Close()
		return nil, errCut
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

func (l *cuttableDialer) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *cuttableDialer) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

func (l *cuttableDialer) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}
