package redlocktest

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/pool"
)

// Stop ends servers as a kill would: connections end, and dials are refused. Stored data is kept
// for Restart. Stop returns when all connections are known to be down.
func (q *Quorum) Stop(masters ...int) {
	q.t.Helper()
	for _, m := range q.chosen(masters) {
		m.Stop()
	}
	q.mark(masters, true)
	q.await(masters, func(n *pool.Node) bool { return n.Stats().Connected == 0 })
}

// Restart stops servers that are up, and starts them without a fault and with all stored data, as
// with appendfsync always. It returns when the nodes are connected again, which takes up to some
// tens of milliseconds.
func (q *Quorum) Restart(masters ...int) { q.restart(masters, true) }

// RestartEmpty is like Restart for servers without persistence: they lose every lock. With
// redlock.WithRestartGuard their nodes do not vote until those locks have expired.
func (q *Quorum) RestartEmpty(masters ...int) { q.restart(masters, false) }

func (q *Quorum) restart(masters []int, keep bool) {
	q.t.Helper()
	q.Stop(masters...)
	for _, m := range q.chosen(masters) {
		m.SetDelay(0)
		if err := m.Restart(keep); err != nil {
			q.t.Fatalf("redlocktest: %v", err)
		}
	}
	q.connected(masters)
	q.mark(masters, false)
}

// Freeze stops servers from answering, like SIGSTOP or a partition. Connections stay open, and
// commands that were sent are executed after Restore. A call that needs these servers takes its
// node timeout.
func (q *Quorum) Freeze(masters ...int) {
	q.t.Helper()
	for _, m := range q.chosen(masters) {
		m.Freeze()
	}
	q.mark(masters, true)
}

// Slow delays the answers of servers, in virtual time in a bubble and in real time elsewhere.
// Commands are executed at once. Zero ends the delay.
func (q *Quorum) Slow(by time.Duration, masters ...int) {
	q.t.Helper()
	for _, m := range q.chosen(masters) {
		m.SetDelay(by)
	}
	q.mark(masters, by > 0)
}

// LoseMajority stops as many servers as it takes to leave no quorum: the first N/2+1 of an odd
// number. Held locks stay valid until their validity ends, and cannot be extended.
func (q *Quorum) LoseMajority() {
	q.t.Helper()
	q.Stop(q.Majority()...)
}

// Majority returns the servers that LoseMajority stops: the fewest without which the others are not
// a quorum. After Freeze(Majority()...) no quorum answers.
func (q *Quorum) Majority() []int {
	list := make([]int, len(q.masters)-q.majority()+1)
	for i := range list {
		list[i] = i
	}
	return list
}

// Restore ends all faults: every server is up with its stored data and answers at once. Restore
// returns when all nodes are connected.
func (q *Quorum) Restore() {
	q.t.Helper()
	var all []int
	for i, m := range q.masters {
		all = append(all, i)
		m.Unfreeze()
		m.SetDelay(0)
		if !m.Up() {
			if err := m.Restart(true); err != nil {
				q.t.Fatalf("redlocktest: %v", err)
			}
		}
	}
	q.connected(all)
	q.mark(all, false)
}

func (q *Quorum) mark(masters []int, faulty bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range masters {
		q.faulty[i] = faulty
	}
}

func (q *Quorum) connected(masters []int) {
	q.t.Helper()
	q.await(masters, func(n *pool.Node) bool { return n.Stats().Connected > 0 })
}

// maxReconnect bounds, in real or in virtual time, how long connections may take to follow a
// change. Only a goroutine that is not scheduled comes near it.
const maxReconnect = time.Minute

// await polls until a condition holds for every connection to these servers.
func (q *Quorum) await(masters []int, is func(*pool.Node) bool) {
	q.t.Helper()
	q.mu.Lock()
	sets := slices.Clone(q.nodes)
	q.mu.Unlock()
	c := clock.Runtime()
	for pause := time.Duration(0); ; pause = time.Millisecond {
		done, _ := timer.After(c, pause)
		<-done
		left := slices.ContainsFunc(sets, func(nodes []*pool.Node) bool {
			return slices.ContainsFunc(masters, func(i int) bool { return !is(nodes[i]) && !closed(nodes[i]) })
		})
		switch {
		case !left:
			return
		case c.Now() > clock.Instant(maxReconnect):
			q.t.Fatalf("redlocktest: connections to servers %v did not change within %v", masters, maxReconnect)
			return
		}
	}
}

// closed reports whether a node was closed, as by the Close of its Locker.
func closed(n *pool.Node) bool { return errors.Is(command.FromPool(n).WhyNotVoting(), pool.ErrClosed) }

// chosen returns the servers with these numbers.
func (q *Quorum) chosen(numbers []int) []*fakeredis.Master {
	q.t.Helper()
	list := make([]*fakeredis.Master, 0, len(numbers))
	for _, i := range numbers {
		if i < 0 || i >= len(q.masters) {
			q.t.Fatalf("redlocktest: no server %d: valid numbers are 0 to %d", i, len(q.masters)-1)
			return nil
		}
		list = append(list, q.masters[i])
	}
	return list
}
