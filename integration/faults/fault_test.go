//go:build unix

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/integration/tcpfault"
)

// ttl is the TTL of every lock here, and the maxTTL of the guard.
const ttl = 400 * time.Millisecond

// fault is something that happens to nodes while contenders use locks on them.
type fault struct {
	name     string
	lasts    float64 // duration in TTLs
	forgets  bool    // the node forgets what it acknowledged: it needs the guard
	durable  bool    // the nodes have an append-only file with fsync every second
	detached bool    // the nodes can be disconnected
	proxied  bool    // the fault is in a proxy between clients and nodes

	strike func(t *testing.T, n *patient)
	again  func(t *testing.T, n *patient) // repeated while the fault lasts
	heal   func(t *testing.T, n *patient)
}

// patient is a node that can have a fault.
type patient struct {
	*redistest.Node

	proxy *tcpfault.Proxy // between the clients and the node, if the fault needs it
	spare *redistest.Node // an empty server
	admin redis.Conn      // dialled before the fault and closed after it, if the fault prevents new connections
}

func faults() []fault {
	return append(inTheServer(), onTheWay()...)
}

func inTheServer() []fault {
	var all []fault
	for _, lasts := range []float64{0.1, 0.5, 1.2, 3} {
		all = append(all, fault{
			name: fmt.Sprintf("paused for %v TTL", lasts), lasts: lasts,
			strike: func(t *testing.T, n *patient) { n.Pause(t) },
			heal:   func(t *testing.T, n *patient) { n.Unpause(t) },
		})
	}
	kill := fault{
		name: "killed, back empty", lasts: 0.5, forgets: true,
		strike: func(t *testing.T, n *patient) { n.Kill(t) },
		heal:   func(t *testing.T, n *patient) { n.Restart(t) },
	}
	durable := kill
	durable.name, durable.durable = "killed, back with AOF everysec", true
	return append(
		all, kill, durable,
		fault{
			name: "FLUSHALL", lasts: 0.5, forgets: true,
			strike: func(t *testing.T, n *patient) { n.Do(t, "FLUSHALL") },
		},
		fault{
			name: "REPLICAOF an empty master, and back", lasts: 0.5, forgets: true,
			strike: func(t *testing.T, n *patient) {
				host, port := n.spare.Inside(t)
				n.Do(t, "REPLICAOF", host, port)
				n.until(t, "it has the data of the other master", "replication", "master_link_status:up")
			},
			heal: func(t *testing.T, n *patient) { n.Do(t, "REPLICAOF", "NO", "ONE") },
		},
		fault{
			name: "CLIENT PAUSE", lasts: 1.2,
			strike: func(t *testing.T, n *patient) { n.Do(t, "CLIENT", "PAUSE", (ttl * 6 / 5).Milliseconds()) },
		},
		fault{
			name: "SCRIPT FLUSH", lasts: 1,
			again: func(t *testing.T, n *patient) { n.Do(t, "SCRIPT", "FLUSH") },
		},
		fault{
			name: "CLIENT KILL", lasts: 1,
			again: func(t *testing.T, n *patient) {
				n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
				n.Do(t, "CLIENT", "KILL", "TYPE", "normal")
			},
		},
		outOfMemory(), cannotSave(), busy(), loading(), passwordChanged(),
		fault{
			name: "network disconnected", lasts: 1, detached: true,
			strike: func(t *testing.T, n *patient) { n.Disconnect(t) },
			heal:   func(t *testing.T, n *patient) { n.Connect(t) },
		},
	)
}

func outOfMemory() fault {
	return fault{
		name: "OOM", lasts: 1,
		strike: func(t *testing.T, n *patient) {
			n.Do(t, "CONFIG", "SET", "maxmemory", 16<<20)
			for i := 0; ; i++ {
				if _, err := n.Try("SETRANGE", fmt.Sprintf("redlock:fill:%d", i), 1<<20, "x"); err != nil {
					require.ErrorContains(t, err, "OOM", byTheMachine)
					return
				}
			}
		},
		heal: func(t *testing.T, n *patient) {
			n.Do(t, "CONFIG", "SET", "maxmemory", 0)
			for _, key := range n.Keys(t, "redlock:fill:*") {
				n.Do(t, "DEL", key)
			}
		},
	}
}

func cannotSave() fault {
	return fault{
		name: "MISCONF", lasts: 1,
		strike: func(t *testing.T, n *patient) {
			n.Do(t, "CONFIG", "SET", "dir", "/proc") // not writable
			n.Do(t, "BGSAVE")                        // before the server would save by itself
			n.until(t, "the save has failed", "persistence", "rdb_last_bgsave_status:err")
			n.Do(t, "CONFIG", "SET", "save", "3600 1")
		},
		heal: func(t *testing.T, n *patient) {
			n.Do(t, "CONFIG", "SET", "save", "")
			n.Do(t, "CONFIG", "SET", "dir", "/data")
		},
	}
}

func busy() fault {
	return fault{
		name: "BUSY", lasts: 1,
		strike: func(t *testing.T, n *patient) {
			n.Do(t, "CONFIG", "SET", "lua-time-limit", 1)
			n.stay(t)
			require.NoError(t, n.admin.Send("EVAL", "while true do end", 0), byTheMachine)
			require.NoError(t, n.admin.Flush(), byTheMachine)
		},
		heal: func(t *testing.T, n *patient) {
			ended := make(chan error, 1)
			go func(admin redis.Conn) {
				_, err := admin.Receive()
				ended <- err
			}(n.admin)
			for { // the script may not have started yet, and the one that is killed may be a client's
				_, _ = n.Try("SCRIPT", "KILL")
				select {
				case err := <-ended: // within the time that stay allows
					require.ErrorContains(t, err, "killed by user", byTheMachine)
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		},
	}
}

// The server reloads its data, at half a millisecond a key. It keeps them.
func loading() fault {
	const keys = 1000
	return fault{
		name: "LOADING", lasts: 1,
		strike: func(t *testing.T, n *patient) {
			// Before Redis 7.0 that cannot be set, and the server answers after every 2 MiB.
			_, _ = n.Try("CONFIG", "SET", "loading-process-events-interval-bytes", 1024)
			n.Do(t, "CONFIG", "SET", "rdbcompression", "no")
			n.Do(t, "CONFIG", "SET", "dir", "/dev/shm") // a container's disk takes seconds for it on a busy machine
			n.Do(t, "CONFIG", "SET", "key-load-delay", 500)
			n.Do(t, "DEBUG", "POPULATE", keys, "redlock:loading", 8192)
			n.stay(t)
			require.NoError(t, n.admin.Send("DEBUG", "RELOAD"), byTheMachine)
			require.NoError(t, n.admin.Flush(), byTheMachine)
		},
		heal: func(t *testing.T, n *patient) {
			_, err := n.admin.Receive()
			require.NoError(t, err, byTheMachine)
			n.Do(t, "EVAL", "for i = 0, ARGV[1] - 1 do redis.call('DEL', 'redlock:loading:' .. i) end", 0, keys)
			n.Do(t, "CONFIG", "SET", "dir", "/data")
		},
	}
}

func passwordChanged() fault {
	return fault{
		name: "NOAUTH", lasts: 1,
		strike: func(t *testing.T, n *patient) {
			n.stay(t)
			n.tell(t, "CONFIG", "SET", "requirepass", "another")
			n.tell(t, "CLIENT", "KILL", "TYPE", "normal") // all connections but this one
		},
		heal: func(t *testing.T, n *patient) { n.tell(t, "CONFIG", "SET", "requirepass", "") },
	}
}

func onTheWay() []fault {
	delay := func(by time.Duration) (strike, heal func(*testing.T, *patient)) {
		set := func(by time.Duration) func(*testing.T, *patient) {
			return func(_ *testing.T, n *patient) {
				n.proxy.Delay(tcpfault.Requests, by)
				n.proxy.Delay(tcpfault.Replies, by)
			}
		}
		return set(by), set(0)
	}
	slow := fault{name: "latency of TTL/16 each way", lasts: 1.5, proxied: true}
	slow.strike, slow.heal = delay(ttl / 16)
	late := fault{name: "latency of TTL/2 each way", lasts: 1.5, proxied: true}
	late.strike, late.heal = delay(ttl / 2)
	halfOpen := func(what string, of tcpfault.Direction) fault {
		return fault{
			name: "half open, no " + what, lasts: 1.5, proxied: true,
			strike: func(_ *testing.T, n *patient) { n.proxy.Stop(of) },
			heal:   func(_ *testing.T, n *patient) { n.proxy.Resume(of) },
		}
	}
	return []fault{
		slow, late, halfOpen("requests", tcpfault.Requests), halfOpen("replies", tcpfault.Replies),
		{
			name: "connections reset", lasts: 1, proxied: true,
			again: func(_ *testing.T, n *patient) { n.proxy.Reset() },
		},
		{
			name: "replies cut", lasts: 1.5, proxied: true,
			// More than a handshake needs, so some connections complete some commands.
			again: func(_ *testing.T, n *patient) { n.proxy.CutAfter(tcpfault.Replies, 8000) },
			heal:  func(_ *testing.T, n *patient) { n.proxy.CutAfter(tcpfault.Replies, -1) },
		},
	}
}

// byTheMachine is what a failure says that is none of the library: the test could not make the fault, or
// could not end it.
const byTheMachine = "the server or the machine failed, and not the library"

// within bounds what a server may take for a fault. It takes less than a second on an idle machine.
const within = time.Minute

// stay opens a connection that survives the fault.
func (n *patient) stay(t testing.TB) {
	t.Helper()
	c, err := n.Dial(redis.DialConnectTimeout(within), redis.DialReadTimeout(within), redis.DialWriteTimeout(within))
	require.NoError(t, err, byTheMachine)
	n.admin = c
}

// tell sends a command over the connection of stay.
func (n *patient) tell(t testing.TB, cmd string, args ...any) {
	t.Helper()
	_, err := n.admin.Do(cmd, args...)
	require.NoError(t, err, "%s: %s", cmd, byTheMachine)
}

// leave closes the connection of stay.
func (n *patient) leave() {
	if n.admin != nil {
		_ = n.admin.Close()
		n.admin = nil
	}
}

// until waits until a section of INFO contains a text.
func (n *patient) until(t testing.TB, what, section, says string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := redis.String(n.Try("INFO", section))
		return err == nil && strings.Contains(info, says)
	}, within, 10*time.Millisecond, "%s: %s", what, byTheMachine)
}
