//go:build unix

// Package servers runs Redis servers as processes of this machine, and proxies between them and a
// client: delays and black holes.
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Server is a redis-server without persistence, on a free port of the loopback address.
type Server struct {
	Addr string
	cmd  *exec.Cmd
	dir  string
}

// startWithin bounds how long a server may take to answer its first PING.
const startWithin = 10 * time.Second

// Start runs n servers, with further arguments. They run until ctx is done or [Stop] is called.
func Start(ctx context.Context, n int, args ...string) ([]*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("servers: redis-server is not installed (apt-get install redis-server, brew install redis), "+
			"and no servers are given by --nodes: %w", err)
	}
	all := make([]*Server, 0, n)
	for range n {
		s, err := start(ctx, path, args)
		if err != nil {
			return nil, errors.Join(err, Stop(all))
		}
		all = append(all, s)
	}
	return all, nil
}

// start tries up to three ports: another process may take a port after freePort has found it.
func start(ctx context.Context, path string, args []string) (s *Server, err error) {
	for range 3 {
		if s, err = startOnce(ctx, path, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startOnce(ctx context.Context, path string, args []string) (*Server, error) {
	addr, port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redis-")
	if err != nil {
		return nil, err
	}
	own := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}
	cmd := exec.CommandContext(ctx, path, append(own, args...)...)
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Server{Addr: addr, cmd: cmd, dir: dir}
	if err := s.awaitPing(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func freePort() (addr, port string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	addr = l.Addr().String()
	_, port, err = net.SplitHostPort(addr)
	return addr, port, errors.Join(err, l.Close())
}

func (s *Server) awaitPing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		err := ping(ctx, s.Addr)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("servers: redis-server does not answer at %s: %w", s.Addr, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func ping(ctx context.Context, addr string) error {
	c, err := redis.DialContext(ctx, "tcp", addr, redis.DialReadTimeout(time.Second))
	if err != nil {
		return err
	}
	_, err = c.Do("PING")
	return errors.Join(err, c.Close())
}

// PID returns the ID of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Freeze stops the process. Its connections stay open, and it answers nothing.
func (s *Server) Freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Kill kills the process.
func (s *Server) Kill() error { return s.cmd.Process.Kill() }

// stop kills the process and waits for its end. The process may be frozen.
func (s *Server) stop() error {
	err := s.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = s.cmd.Wait() // reports that the process was killed
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Stop kills all servers. They may be frozen.
func Stop(all []*Server) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.stop())
	}
	return errors.Join(errs...)
}
