//go:build unix

package load

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

// Usage is what was used up.
type Usage struct {
	ClientCPU, ServerCPU     time.Duration
	ClientCalls, ServerCalls int64 // reads and writes of the system, on Linux
	Mallocs, Bytes           int64 // of the client's heap
	Commands                 int64 // of the contestant's own, on all servers
	AllCommands              int64 // whatever the servers ran, also inside of scripts
}

func (u Usage) sub(v Usage) Usage {
	return Usage{
		ClientCPU: u.ClientCPU - v.ClientCPU, ServerCPU: u.ServerCPU - v.ServerCPU,
		ClientCalls: u.ClientCalls - v.ClientCalls, ServerCalls: u.ServerCalls - v.ServerCalls,
		Mallocs: u.Mallocs - v.Mallocs, Bytes: u.Bytes - v.Bytes,
		Commands: u.Commands - v.Commands, AllCommands: u.AllCommands - v.AllCommands,
	}
}

// beside adds what another process used of its own. Of the servers both have counted the same: the larger count is the one of the
// longer time.
func (u Usage) beside(v Usage) Usage {
	return Usage{
		ClientCPU: u.ClientCPU + v.ClientCPU, ServerCPU: max(u.ServerCPU, v.ServerCPU),
		ClientCalls: u.ClientCalls + v.ClientCalls, ServerCalls: max(u.ServerCalls, v.ServerCalls),
		Mallocs: u.Mallocs + v.Mallocs, Bytes: u.Bytes + v.Bytes,
		Commands: max(u.Commands, v.Commands), AllCommands: max(u.AllCommands, v.AllCommands),
	}
}

// A meter reads what this process and the servers have used so far.
type meter struct {
	admin []redis.Conn
	pids  []int
	sends []string
}

func newMeter(spec Spec, kind adapters.Kind) (m meter, err error) {
	m = meter{pids: spec.PIDs, sends: kind.Sends}
	for _, addr := range spec.Asked {
		c, err := redis.Dial("tcp", addr, redis.DialReadTimeout(10*time.Second))
		if err != nil {
			return meter{}, errors.Join(err, m.close())
		}
		m.admin = append(m.admin, c)
	}
	return m, nil
}

func (m meter) close() error {
	var errs []error
	for _, c := range m.admin {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (m meter) read() (Usage, error) {
	var u Usage
	for _, c := range m.admin {
		if err := m.ask(c, &u); err != nil {
			return Usage{}, err
		}
	}
	for _, pid := range m.pids {
		u.ServerCalls += calls(strconv.Itoa(pid))
	}
	u.ClientCalls = calls("self")
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.Mallocs, u.Bytes = int64(mem.Mallocs), int64(mem.TotalAlloc)
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return Usage{}, err
	}
	u.ClientCPU = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return u, nil
}

// ask adds a server's counters.
func (m meter) ask(c redis.Conn, u *Usage) error {
	for _, section := range []string{"cpu", "stats", "commandstats"} {
		text, err := redis.String(c.Do("INFO", section))
		if err != nil {
			return fmt.Errorf("load: INFO %s: %w", section, err)
		}
		for line := range strings.Lines(text) {
			m.add(strings.TrimSpace(line), u)
		}
	}
	return nil
}

// add takes one line of INFO. What can't be read counts as nothing: no server that is in use writes such lines.
func (m meter) add(line string, u *Usage) {
	field, value, _ := strings.Cut(line, ":")
	switch {
	case field == "used_cpu_user" || field == "used_cpu_sys":
		seconds, _ := strconv.ParseFloat(value, 64)
		u.ServerCPU += time.Duration(seconds * float64(time.Second))
	case field == "total_commands_processed":
		n, _ := strconv.ParseInt(value, 10, 64)
		u.AllCommands += n
	case slices.Contains(m.sends, strings.TrimPrefix(field, "cmdstat_")):
		count, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, _ := strconv.ParseInt(count, 10, 64)
		u.Commands += n
	}
}

// calls are the reads and writes of a process so far; 0 on a system without /proc.
func calls(pid string) (n int64) {
	text, _ := os.ReadFile("/proc/" + pid + "/io")
	for line := range strings.Lines(string(text)) {
		if field, value, _ := strings.Cut(strings.TrimSpace(line), ": "); field == "syscr" || field == "syscw" {
			one, _ := strconv.ParseInt(value, 10, 64)
			n += one
		}
	}
	return n
}

// now reads a clock that all processes of this machine share.
func now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
