package fakeredis

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// listen opens the port, the same one at every start.
func (m *Master) listen() error {
	if m.tcp {
		l, err := net.Listen("tcp", m.addr)
		if err != nil {
			return fmt.Errorf("fakeredis: master %s: %w", m.name, err)
		}
		m.listener, m.addr = l, l.Addr().String()
		m.served.Go(func() { m.acceptAll(l) })
	}
	m.up = true
	return nil
}

func (m *Master) acceptAll(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if !m.accept(conn) {
			_ = conn.Close()
		}
	}
}

// Dial connects to the master: network and address are not looked at. It fits
// pool.Config.Dial. A frozen master is connected to as any other; a stopped one
// refuses with ECONNREFUSED.
func (m *Master) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if m.tcp {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", m.Addr())
	}
	err := ctx.Err()
	if err == nil {
		client, server := pipenet.Pipe("client", pipenet.Addr(m.addr))
		if m.accept(server) {
			return client, nil
		}
		err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipenet.Addr(m.addr), Err: err}
}

// Stop ends the master as SIGKILL would: its connections end, what they had not
// executed is lost, dials are refused. It returns when its goroutines have ended,
// so a hook must not call it.
func (m *Master) Stop() {
	m.mu.Lock()
	m.up = false
	if m.listener != nil {
		_ = m.listener.Close()
		m.listener = nil
	}
	for _, c := range m.clients {
		c.kill()
	}
	m.mu.Unlock()
	m.served.Wait()
}

// Up says whether the master runs, frozen or not.
func (m *Master) Up() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.up
}

// Restart stops the master if it runs, and starts it at the same address with a
// new run_id, no scripts, and the keys kept or lost. TTLs have gone on meanwhile.
// Scripted replies, denials, delay and INFO's fields stay as they were set.
func (m *Master) Restart(keep bool) error {
	m.Stop()
	m.FlushScripts()
	if !keep {
		m.redis.FlushAll()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	m.run = newRun()
	return m.listen()
}

// Close ends the master for good.
func (m *Master) Close() {
	m.Stop()
	m.redis.Close()
}
