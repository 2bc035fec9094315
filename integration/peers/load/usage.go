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

// Usage is the cost of a measurement.
type Usage struct {
	ClientCPU, ServerCPU     time.Duration
	ClientCalls, ServerCalls int64 // read and write system calls, on Linux
	Mallocs, Bytes           int64 // of the client's heap
	Commands                 int64 // that the adapter sent, on all servers
	AllCommands              int64 // that the servers ran, including those inside scripts
	Sets                     int64 // SET commands that the servers ran: attempts to acquire a lock
}

func (u Usage) sub(v Usage) Usage {
	return Usage{
		ClientCPU: u.ClientCPU - v.ClientCPU, ServerCPU: u.ServerCPU - v.ServerCPU,
		ClientCalls: u.ClientCalls - v.ClientCalls, ServerCalls: u.ServerCalls - v.ServerCalls,
		Mallocs: u.Mallocs - v.Mallocs, Bytes: u.Bytes - v.Bytes,
		Commands: u.Commands - v.Commands, AllCommands: u.AllCommands - v.AllCommands, Sets: u.Sets - v.Sets,
	}
}

// beside adds the client's usage of another process. Both processes counted the same servers, so of
// those the larger count is taken, which covers the longer time.
func (u Usage) beside(v Usage) Usage {
	return Usage{
		ClientCPU: u.ClientCPU + v.ClientCPU, ServerCPU: max(u.ServerCPU, v.ServerCPU),
		ClientCalls: u.ClientCalls + v.ClientCalls, ServerCalls: max(u.ServerCalls, v.ServerCalls),
		Mallocs: u.Mallocs + v.Mallocs, Bytes: u.Bytes + v.Bytes,
		Commands: max(u.Commands, v.Commands), AllCommands: max(u.AllCommands, v.AllCommands), Sets: max(u.Sets, v.Sets),
	}
}

// A meter reads the usage of this process and of the servers so far.
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

// ask adds the counters of one server.
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

// add parses one line of INFO. A number that cannot be parsed counts as 0: known servers write no such lines.
func (m meter) add(line string, u *Usage) {
	field, value, _ := strings.Cut(line, ":")
	switch {
	case field == "used_cpu_user" || field == "used_cpu_sys":
		seconds, _ := strconv.ParseFloat(value, 64)
		u.ServerCPU += time.Duration(seconds * float64(time.Second))
	case field == "total_commands_processed":
		n, _ := strconv.ParseInt(value, 10, 64)
		u.AllCommands += n
	case strings.HasPrefix(field, "cmdstat_"):
		count, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, _ := strconv.ParseInt(count, 10, 64)
		if field == "cmdstat_set" {
			u.Sets += n
		}
		if slices.Contains(m.sends, strings.TrimPrefix(field, "cmdstat_")) {
			u.Commands += n
		}
	}
}

// calls returns the read and write system calls of a process so far. It returns 0 on a system without /proc.
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

// now returns the time in ns, by a clock that all processes of this machine share.
func now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
