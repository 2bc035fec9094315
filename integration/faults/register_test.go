//go:build unix

package faults

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// register is a number with a version and the largest fence that was seen. Only the holder of a
// lock should change it. Holders open it and later write it. It rejects both if the fence is too
// small. It detects writes that would overwrite another holder's.
type register struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	conns    []net.Conn
	seen     int64
	owner    string
	version  int64
	accepted int
	refused  int
	lost     []string // accepted writes whose base version was not current any more
}

func newRegister(t testing.TB) *register {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &register{listener: l}
	r.serving.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *register) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		r.serving.Go(func() { r.serve(c) })
	}
}

func (r *register) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
}

func (r *register) serve(c net.Conn) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var (
			what, owner string
			fence       int64
			base        int64
		)
		if _, err := fmt.Sscan(lines.Text(), &what, &fence, &owner, &base); err != nil {
			panic(err)
		}
		if _, err := fmt.Fprintln(c, r.answer(what, fence, owner, base)); err != nil {
			return
		}
	}
}

// answer returns the version, or -1 if the fence is too small.
func (r *register) answer(what string, fence int64, owner string, base int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !redlock.AcceptFence(r.seen, r.owner, fence, owner) {
		r.refused++
		return -1
	}
	r.seen, r.owner = fence, owner
	if what == "write" {
		if base != r.version {
			r.lost = append(r.lost, fmt.Sprintf("fence %d wrote version %d over %d", fence, base+1, r.version))
		}
		r.version++
		r.accepted++
	}
	return r.version
}

// resource is the connection of a process to the register.
type resource struct {
	mu    sync.Mutex // guards what follows, for one request and its reply at a time
	conn  net.Conn
	lines *bufio.Scanner
}

func dialResource(addr string) *resource {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	return &resource{conn: c, lines: bufio.NewScanner(c)}
}

func (r *resource) open(k *redlock.Lock) (version int64) { return r.ask("open", k, 0) }

func (r *resource) write(k *redlock.Lock, base int64) { r.ask("write", k, base) }

func (r *resource) ask(what string, k *redlock.Lock, base int64) (version int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := fmt.Fprintln(r.conn, what, k.Fence(), k.Token(), base); err != nil {
		panic(err)
	}
	if !r.lines.Scan() {
		panic("the register closed the connection")
	}
	if _, err := fmt.Sscan(r.lines.Text(), &version); err != nil {
		panic(err)
	}
	return version
}

func TestTheRegisterFindsALostWrite(t *testing.T) {
	r := newRegister(t)
	require.Equal(t, int64(0), r.answer("open", 7, "a", 0))
	require.Equal(t, int64(0), r.answer("open", 8, "b", 0))
	require.Equal(t, int64(-1), r.answer("write", 7, "a", 0), "b has opened the register")
	require.Equal(t, int64(1), r.answer("write", 8, "b", 0))
	require.Equal(t, int64(-1), r.answer("open", 8, "c", 0), "two holders with one fence")
	require.Empty(t, r.lost)
	require.Equal(t, int64(2), r.answer("write", 9, "d", 0))
	require.Len(t, r.lost, 1, "d has not read what b wrote")
}
