package fakeredis

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// listen opens the port. It is the same port at every start.
func (m *Master) listen() error {
	if m.tcp {
		l, err := m.port.Listen()
		if err != nil {
			return fmt.Errorf("fakeredis: master %s: %w", m.name, err)
		}
		m.listener = l
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

// Dial connects to the master, and ignores network and address. It fits pool.Config.Dial. A frozen
// master accepts the connection; a stopped one refuses it with ECONNREFUSED.
func (m *Master) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if m.tcp {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", m.Addr())
	}
	conn, err := m.dialPipe(ctx)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (m *Master) dialPipe(ctx context.Context) (*pipenet.Conn, error) {
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

// Stop ends the master as SIGKILL does. Its connections end, commands that have not executed are
// lost, and dials are refused. Stop returns when the master's goroutines have ended, so a hook must
// not call it.
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

// Up reports whether the master runs. A frozen master runs.
func (m *Master) Up() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.up
}

// Restart stops the master if it runs, and starts it at the same address with a new run_id and
// without scripts. keep says whether it keeps its keys, whose TTLs continue while the master is
// down. Set replies, denials, the delay and the fields of INFO are kept.
func (m *Master) Restart(keep bool) error {
	m.Stop()
	if !keep {
		m.FlushAll()
	}
	return m.boot()
}

// boot starts the master, which is stopped, with the data that it has.
func (m *Master) boot() error {
	m.FlushScripts()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	m.run = newRun()
	if m.observer != nil {
		m.observer.Restarted()
	}
	return m.listen()
}

// Close ends the master permanently.
func (m *Master) Close() {
	m.Stop()
	m.redis.Close()
	m.port.Free()
}
