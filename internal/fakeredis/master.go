// Package fakeredis runs Redis masters inside the process, on miniredis, for the
// demo and for tests, with the faults that a lock over several of them must
// survive: stop, restart with and without data, freeze, delay, lost and partial
// replies, killed clients, scripted errors.
//
// The connections are served here and not by miniredis, because a real master
// executes one command at a time, is frozen as a whole, and executes nothing
// more of a client that was killed; miniredis gives each connection a goroutine
// that can be stopped only after a command too many (docs/dev/rules.md rule 28). Its
// database, its scripts and its pub/sub do the work.
//
// A master made by New does no real I/O: inside of a testing/synctest bubble its
// TTLs follow the bubble's time.
//
// What it is not: fast. A script costs 0.15 ms, and the first command after time
// has moved looks at every key (0.5 ms for a thousand), so that nothing measured
// on it says anything about Redis. Blocking commands (BLPOP, …) would block the
// whole master.
package fakeredis

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Master is one Redis master. All methods are safe for concurrent use.
type Master struct {
	name  string
	redis *miniredis.Miniredis
	addr  string // without a listener constant, with one guarded by mu
	tcp   bool

	// mu is held while a command executes, and guards everything below. It is
	// taken before miniredis's own lock, never under it.
	mu       sync.Mutex
	turn     sync.Cond // broadcast when a waiting client may go on, or must end
	up       bool
	frozen   bool
	paused   int // Pauses that are not over
	listener net.Listener
	clients  map[int64]*Client
	lastID   int64
	run      run
	script   script
	record   record
	running  *Client           // whose command executes now
	passed   bool              // the command itself has gone on to miniredis
	again    bool              // it goes there once more, by its text
	texts    map[string]string // of scripts that were loaded, by hash
	ahead    time.Duration
	gain     float64   // of the clock, a second
	since    time.Time // of which the gain counts
	set      bool      // the clock, by SetClock or SetRate

	served sync.WaitGroup // the goroutines of this run
}

// run is what changes with every start.
type run struct {
	id, replID string
	began      time.Time
}

// New makes a master without a listener, which is reached through Dial only. In
// a bubble it must be called inside of it, and closed before the bubble ends.
func New(name string) *Master {
	m := newMaster(name)
	m.addr = name + ":6379"
	m.up = true
	return m
}

// Start makes a master that listens on a free port of 127.0.0.1.
func Start(name string) (*Master, error) {
	m := newMaster(name)
	m.tcp, m.addr = true, "127.0.0.1:0"
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.listen(); err != nil {
		m.redis.Close()
		return nil, err
	}
	return m, nil
}

func newMaster(name string) *Master {
	m := &Master{name: name, redis: miniredis.NewMiniRedis(), clients: map[int64]*Client{}, run: newRun()}
	m.turn.L = &m.mu
	m.script.databases = []int{0}
	// Dial is miniredis's only way to start without a listener.
	if conn, err := m.redis.Dial(); err == nil {
		_ = conn.Close()
	}
	m.redis.ClockTTL(true)
	// The one hook for all runs: a restart does not touch miniredis's server.
	m.redis.Server().SetPreHook(m.answer)
	return m
}

// Name is the name that it was made with.
func (m *Master) Name() string { return m.name }

// Addr is host:port; without a listener the name and 6379.
func (m *Master) Addr() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addr
}

// URL is what pool.ParseURL takes. Without a listener it leads here only by Dial.
func (m *Master) URL() string { return "redis://" + m.Addr() }

// RunID is the run_id of the present run: 40 hexadecimal digits.
func (m *Master) RunID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run.id
}

// Connections is the number of clients, also of those that are gone while the
// master has not read all that they sent.
func (m *Master) Connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.clients)
}

// Clients lists the clients in the order in which they connected.
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

// Client is the client of that id, nil when there is none (any more).
func (m *Master) Client(id int64) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients[id]
}
