// Package fakeredis runs Redis masters inside the process, on miniredis, for the demo and for
// tests. It injects the faults that a lock over several masters must survive: stop, restart with
// and without data, freeze, delay, lost and partial replies, killed clients, scripted errors.
//
// This package serves the connections and runs the scripts, and miniredis provides the database and
// pub/sub. A real master executes one command at a time, freezes as a whole, and executes no more
// commands of a killed client. miniredis gives each connection a goroutine that can only be stopped
// after one command too many.
//
// A master made by New does no real I/O. Inside a testing/synctest bubble its TTLs follow the time
// of the bubble.
//
// The masters are not fast. A script costs 0.02 ms, and the first command after the time has
// changed visits every key (0.5 ms for a thousand), so measurements on them say nothing about
// Redis. Blocking commands (BLPOP, …) would block the whole master.
package fakeredis

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumlock/go-redlock/internal/port"
)

// Master is one Redis master. All methods are safe for concurrent use.
type Master struct {
	name  string
	redis *miniredis.Miniredis
	addr  string
	tcp   bool
	port  port.Port // with tcp

	// mu is held while a command executes, and guards everything below. It is locked before
	// miniredis's own lock, never under it.
	mu           sync.Mutex
	runnable     sync.Cond // broadcast when a waiting client may continue or must end
	up           bool
	frozen       bool
	paused       int // number of Pauses that have not been resumed
	listener     net.Listener
	clients      map[int64]*Client
	lastID       int64
	run          run
	script       script
	record       record
	running      *Client              // the client whose command executes
	scripts      map[string]*compiled // those that are loaded, by hash
	losesScripts bool                 // see LoseScripts
	ahead        time.Duration
	drift        int64     // of the clock, in nanoseconds per second
	since        time.Time // the time from which drift counts
	rest         int64     // of the drift before, in billionths of a nanosecond
	set          bool      // the clock was set, by SetClock, MoveClock or SetRate
	observer     Observer  // may be nil

	served sync.WaitGroup // the goroutines of this run
}

// run is the state that changes with every start.
type run struct {
	id, replID string
	began      time.Time
}

// New creates a master without a listener, which is reached by Dial only. In a bubble it must be
// called inside the bubble, and the master must be closed before the bubble ends.
func New(name string) *Master {
	m := newMaster(name)
	m.addr = name + ":6379"
	m.up = true
	return m
}

// Start creates a master that listens on a free port of 127.0.0.1. The port is reserved until Close: no
// other master is given it while this one is stopped.
func Start(name string) (*Master, error) {
	reserved, err := port.Reserve()
	if err != nil {
		return nil, fmt.Errorf("fakeredis: master %s: %w", name, err)
	}
	m := newMaster(name)
	m.tcp, m.port, m.addr = true, reserved, reserved.Addr()
	m.mu.Lock()
	err = m.listen()
	m.mu.Unlock()
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func newMaster(name string) *Master {
	m := &Master{name: name, redis: miniredis.NewMiniRedis(), clients: map[int64]*Client{}, run: newRun()}
	m.runnable.L = &m.mu
	m.script.databases = []int{0}
	// Dial is miniredis's only way to start without a listener.
	if conn, err := m.redis.Dial(); err == nil {
		_ = conn.Close()
	}
	m.redis.ClockTTL(true)
	// One hook for all runs: a restart does not change miniredis's server.
	m.redis.Server().SetPreHook(m.answer)
	return m
}

// Name returns the name of the master.
func (m *Master) Name() string { return m.name }

// Addr returns host:port. Without a listener that is the name and port 6379.
func (m *Master) Addr() string { return m.addr }

// URL returns a URL for pool.ParseURL. Without a listener it leads to the master only by Dial.
func (m *Master) URL() string { return "redis://" + m.Addr() }

// RunID returns the run_id of the current run: 40 hexadecimal digits.
func (m *Master) RunID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run.id
}

// Connections returns the number of clients. Clients that have closed their connection count until
// the master has read all that they sent.
func (m *Master) Connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.clients)
}

// Clients returns the clients in the order in which they connected.
func (m *Master) Clients() []*Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Client
	for _, c := range m.clients {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Client) int { return int(a.id - b.id) })
	return all
}

// Client returns the client with that ID, or nil if there is none.
func (m *Master) Client(id int64) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients[id]
}
