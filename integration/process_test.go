//go:build unix

package integration

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// master is a server that a benchmark can freeze.
type master interface {
	URL() string
	Pause(testing.TB)
	Unpause(testing.TB)
}

// nearMasters starts n servers. They are processes without Docker's proxy if redis-server is
// installed, and containers otherwise. The results of the two cannot be compared; the log says
// which are used.
func nearMasters(b *testing.B, n int) []master {
	b.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		b.Log("redis-server is not installed: servers in containers, behind Docker's proxy")
		return asMasters(redistest.Start(b, n))
	}
	processes := make([]*process, n)
	for i := range processes {
		processes[i] = startProcess(b, path)
	}
	return asMasters(processes)
}

func asMasters[M master](of []M) []master {
	all := make([]master, len(of))
	for i, m := range of {
		all[i] = m
	}
	return all
}

// process is a server that is a child process of the test.
type process struct {
	cmd  *exec.Cmd
	addr string
}

// startProcess starts a server on a free port, and on another one if a process has taken the port
// meanwhile.
func startProcess(t testing.TB, path string) *process {
	t.Helper()
	for range 5 {
		if p := tryProcess(t, path); p != nil {
			return p
		}
	}
	require.FailNow(t, "the server found its port taken five times")
	return nil
}

// tryProcess returns nil if another process has the port: the server has ended, or who answers is
// another one.
func tryProcess(t testing.TB, path string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &process{addr: l.Addr().String()}
	require.NoError(t, l.Close())
	_, port, err := net.SplitHostPort(p.addr)
	require.NoError(t, err)
	p.cmd = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	require.NoError(t, p.cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // even if it is stopped
		<-ended
	})
	var info string
	await(t, "redis-server answers at "+p.addr, func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		c, err := redis.Dial("tcp", p.addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
		if err != nil {
			return false
		}
		defer c.Close()
		info, err = redis.String(c.Do("INFO", "server"))
		return err == nil
	})
	if !strings.Contains(info, fmt.Sprintf("\nprocess_id:%d\r", p.cmd.Process.Pid)) {
		return nil
	}
	return p
}

func (p *process) URL() string { return "redis://" + p.addr }

func (p *process) Pause(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
}

func (p *process) Unpause(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
}

func (p *process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig), strconv.Itoa(int(sig)))
}
