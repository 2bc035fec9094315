//go:build unix

package integration

import (
	"net"
	"os/exec"
	"strconv"
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

func startProcess(t testing.TB, path string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &process{addr: l.Addr().String()}
	require.NoError(t, l.Close())
	_, port, err := net.SplitHostPort(p.addr)
	require.NoError(t, err)
	p.cmd = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // even if it is stopped
		_ = p.cmd.Wait()
	})
	await(t, "redis-server answers at "+p.addr, func() bool {
		c, err := redis.Dial("tcp", p.addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Do("PING")
		return err == nil
	})
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
