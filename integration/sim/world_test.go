package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// bound is how long an undo may take beyond its TTL: the hard timeout and a dial.
const bound = 6 * time.Second

// world is one running scenario, inside a bubble.
type world struct {
	plan       *plan
	masters    []*fakeredis.Master
	logs       []*fakeredis.Snapshot // of each master, of different ages
	setBack    []time.Duration       // how far the clock of each master was set back, in all
	clients    []*client
	history    *history
	background sync.WaitGroup // what ends with the scenario
	counts     *counted
	still      bool // messages take no time
	trace      *trace

	// mu guards what the masters share. The order of their accesses does not depend on the seed.
	mu     sync.Mutex
	random *rand.Rand
	ghosts []func() // what reaches masters after all clients have ended
	ending bool     // the background is being waited for
}

// run runs a plan in a bubble and returns what the oracles found. The bubble fails if a goroutine
// is left.
func run(t *testing.T, p *plan, counts *counted) (violations []string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%v: %v", p, r)
			panic(r)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := &world{plan: p, history: newHistory(), counts: counts, random: p.random(2), still: p.directed != nil}
		w.beginTrace()
		w.open()
		if p.directed != nil {
			p.directed(w)
		} else {
			w.play()
		}
		violations = w.check()
		w.close()
		p.trace = w.trace
	})
	return violations
}

func (w *world) chance(of float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64() < of
}

// some returns a delay with a heavy tail: mostly far below most, seldom close to it.
func (w *world) some(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.random.Float64()
	return time.Duration(x * x * x * x * float64(most))
}

func (w *world) atTheEnd(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ghosts = append(w.ghosts, f)
}

func (w *world) open() {
	r := w.plan.random(3)
	for i := range w.plan.masters {
		m := fakeredis.New(fmt.Sprint("n", i+1))
		ahead, rate := time.Duration(0), 1.0
		if w.plan.offsets > 0 {
			ahead = upTo(r, w.plan.offsets) - w.plan.offsets/2
			m.SetClock(ahead)
		}
		if w.plan.masterRates > 0 {
			rate = 1 + w.plan.masterRates*(2*r.Float64()-1)
			m.SetRate(rate)
		}
		w.trace.observeMaster(i, m, ahead, rate)
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) { return w.hook(m, cmd, args) })
		w.masters = append(w.masters, m)
		w.logs, w.setBack = append(w.logs, m.Snapshot()), append(w.setBack, 0)
	}
	for i := range w.plan.clients {
		w.clients = append(w.clients, w.client(i, wholeRate(1+w.plan.clientRates*(2*r.Float64()-1))))
	}
	synctest.Wait()
}

// hook delays every command and its reply, and records when a token arrives first.
func (w *world) hook(m *fakeredis.Master, cmd string, args []string) (string, bool) {
	what := op(cmd, args)
	if what == "acquire" {
		w.history.began(tokenOf(cmd, args))
	}
	if !w.still && what != "" {
		time.Sleep(w.some(w.plan.ttl / 4))
		w.counts.add("messages", 1)
	}
	if f := w.plan.faultyClient; f != nil && f.hook != nil {
		return f.hook(w, m, cmd, args)
	}
	return "", false
}

// client creates a process with its own clock.
func (w *world) client(id int, rate float64) *client {
	c := &client{world: w, id: id, rate: rate, clock: clocktest.NewSkewed(clock.Runtime())}
	c.clock.SetRate(rate)
	for _, m := range w.masters {
		n, err := pool.Open(pool.Config{Name: m.Name(), Address: m.Addr(), Clock: c.clock, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := m.Dial(ctx, network, address)
			if f := w.plan.faultyClient; err == nil && f != nil && f.conn != nil {
				conn = f.conn(conn)
			}
			return conn, err
		}})
		if err != nil {
			panic(err)
		}
		c.nodes = append(c.nodes, n)
		if f := w.plan.faultyClient; f != nil && f.submit != nil {
			tapped.Store(n, w)
		}
	}
	opts := []redlock.Option{redlock.WithClock(c.clock), redlock.WithOwner(fmt.Sprint("p", id))}
	if w.plan.fencing {
		opts = append(opts, redlock.WithFencing())
	}
	if w.plan.guard {
		opts = append(opts, redlock.WithRestartGuard(w.plan.longest()))
	}
	if w.plan.repair {
		opts = append(opts, redlock.WithRepair())
	}
	if w.still && w.plan.directed == nil { // no longer than the first pause: TryAcquire does not repeat a split vote
		opts = append(opts, redlock.WithNodeTimeout(time.Millisecond))
	}
	l, err := redlock.New(c.nodes, opts...)
	if err != nil {
		panic(err)
	}
	c.locker = l
	w.trace.observe(c)
	return c
}

// play has all clients work while the faults happen, and then heals all masters.
func (w *world) play() {
	var work, script sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for _, c := range w.clients {
		for i := range w.plan.workers {
			work.Go(func() { c.work(w.plan.random(uint64(1000 + 100*c.id + i))) })
		}
	}
	script.Go(func() {
		began := time.Now()
		for _, f := range w.plan.faults {
			select {
			case <-time.After(max(1, f.at-time.Since(began))): // not 0: https://go.dev/issue/78156
				w.inject(f)
			case <-ctx.Done():
				return
			}
		}
	})
	work.Wait()
	stop()
	script.Wait()
	w.awaitBackground()
	for _, m := range w.masters {
		m.SetDelay(0)
		m.Unfreeze()
	}
}

// check returns what the oracles found.
func (w *world) check() []string {
	for i, by := range w.setBack { // the master's keys live for longer
		switch {
		case by > 0 && w.plan.excludes:
			time.Sleep(by) // a step forward is beyond the assumptions
		case by > 0:
			w.masters[i].MoveClock(by)
		}
	}
	time.Sleep(w.plan.longest() + bound)
	for _, f := range w.ghosts {
		f()
	}
	time.Sleep(w.plan.ttl / 2)
	h := w.history
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	if w.plan.excludes {
		found = append(found, h.overlaps()...)
	}
	if w.plan.fencing && (w.plan.durable || w.plan.guard) {
		found = append(append(found, h.disorder()...), h.lost...)
		if w.plan.excludes && w.plan.workers < 3 {
			byName := map[string][]*hold{}
			for _, x := range h.holds {
				byName[x.name] = append(byName[x.name], x)
			}
			for name, holds := range byName {
				if !linear(holds) {
					found = append(found, "not the history of a fenced lock: "+name)
				}
			}
		}
	}
	for _, m := range w.masters {
		for _, key := range m.Keys() {
			if !strings.HasPrefix(key, "redlock:") {
				found = append(found, fmt.Sprintf("left on %s: %s", m.Name(), key))
			}
		}
	}
	w.counts.add("acquired", len(h.holds))
	return found
}

func (w *world) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range w.clients {
		_ = c.locker.Close(ctx)
		for _, n := range c.nodes {
			tapped.Delete(n)
		}
	}
	for _, m := range w.masters {
		m.Close()
	}
}
