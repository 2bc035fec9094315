package examine

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/visit"
	"github.com/quorumlock/go-redlock/internal/wallclock"
)

// Node examines a node. An error says why that was not possible. Node returns when ctx ends.
func (q *Question) Node(ctx context.Context, n door.Node) (*Diagnosis, error) {
	began := q.Clock.Now()
	soon, cancel := context.WithTimeoutCause(ctx, q.Timeout, command.ErrTimeout)
	defer cancel()
	servers, err := visit.Servers(soon, n)
	if err != nil {
		return nil, err
	}
	// Each goroutine writes only its own index, so the slices need no mutex.
	each, errs := make([]*Diagnosis, len(servers.All)), make([]error, len(servers.All))
	var wg sync.WaitGroup
	for i, s := range servers.All {
		wg.Go(func() { each[i], errs[i] = q.server(ctx, soon, s, servers) })
	}
	wg.Wait()
	if servers.Cluster {
		return ofCluster(n.Name(), servers, each, errs, q.Clock.Now().Sub(began))
	}
	found := each[0]
	if found != nil && servers.Sentinels != nil {
		found.Findings = append(found.Findings, sentinelFindings(n.Name(), found.address, servers.Sentinels(soon))...)
	}
	return found, errs[0]
}

// server dials, asks everything, and closes the connection. soon bounds what takes a few round trips only.
func (q *Question) server(ctx, soon context.Context, s node.Master, of node.Servers) (*Diagnosis, error) {
	conn, err := visit.Dial(soon, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	found := &Diagnosis{Facts: conn.Facts(), address: conn.Address()}
	if err := q.measureClock(soon, conn, found); err != nil {
		return nil, err
	}
	// All of the probes go out in one flush, so a report costs few round trips to each node.
	if err := conn.Run(soon, append(readMore(found), q.probes(found, of.Cluster)...)...); err != nil {
		return nil, err
	}
	for _, f := range conn.Faults() {
		found.Findings = append(found.Findings, Finding{Error, f})
	}
	found.Findings = append(found.Findings, q.findings(s.Config.Label, found)...)
	if q.Scan {
		if err := scanForLocks(ctx, conn, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// measureClock sends TIME alone, so that the round trip is that of one command. It compares the
// node's clock with that of this machine in the middle of the round trip.
func (q *Question) measureClock(ctx context.Context, conn *visit.Conn, found *Diagnosis) error {
	// The duration is measured by the steady clock. Only the difference to the node needs the wall
	// clock.
	began, ours := q.Clock.Now(), wallclock.Micros()
	err := conn.Run(ctx, visit.Call{Name: "TIME", Take: func(reply any, err error) error {
		found.Time = serverTime(reply, err)
		return nil
	}})
	if err != nil {
		return err
	}
	found.RoundTrip = q.Clock.Now().Sub(began)
	ours += found.RoundTrip.Microseconds() / 2
	// Without the right to TIME there is nothing to compare.
	if found.ClockRead = found.Time != 0; found.ClockRead {
		found.Offset = time.Duration(found.Time-ours) * time.Microsecond
	}
	return nil
}

// maxTime is the latest time that is accepted, in Unix seconds: the year 2242. Clocks are compared in
// nanoseconds, which must not overflow.
const maxTime = 1 << 33

// serverTime returns the reply to TIME in Unix microseconds, and 0 if it is denied or not a time.
func serverTime(reply any, err error) int64 {
	parts, err := redis.Int64s(reply, err)
	// A clock that is far off would overflow the comparison, so it counts as unread.
	if err != nil || len(parts) != 2 || parts[0] < 0 || parts[0] > maxTime || parts[1] < 0 || parts[1] >= 1e6 {
		return 0
	}
	return parts[0]*1e6 + parts[1]
}

// readMore returns the calls that read what the handshake does not. A user without the right to INFO or
// CONFIG GET gets none of it, which is no error.
func readMore(found *Diagnosis) []visit.Call {
	read := func(setting string, take func(value string)) visit.Call {
		return visit.Call{Name: "CONFIG", Args: []any{"GET", setting}, Take: func(reply any, err error) error {
			pair, err := redis.Strings(reply, err)
			// A server that does not know the setting answers with an empty list.
			if err == nil && len(pair) == 2 {
				found.Configured = true
				// The value appears in reports, and a server can send anything.
				take(oneline.Printable(pair[1]))
			}
			return nil
		}}
	}
	return []visit.Call{
		{Name: "INFO", Take: func(reply any, err error) error {
			if info, err := redis.Bytes(reply, err); err == nil {
				found.readInfo(info)
			}
			return nil
		}},
		read("appendfsync", func(v string) { found.Fsync = v }),
		read("no-appendfsync-on-rewrite", func(v string) { found.UnsyncedRewrites = v == "yes" }),
		read("save", func(v string) { found.Snapshots = v != "" }),
		read("repl-backlog-ttl", func(v string) { found.BacklogTTL = v }),
	}
}
