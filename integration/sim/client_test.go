package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// names are the names that clients contend for. The first one is chosen most often.
var names = []string{"a", "b"}

// client is a process: a Locker with its own nodes and its own clock.
type client struct {
	world  *world
	id     int
	rate   float64
	clock  *clocktest.Skewed
	stalls atomic.Bool // the clock stands
	locker *redlock.Locker
	nodes  []*pool.Node

	mu   sync.Mutex // guards held
	held map[*redlock.Lock][]*hold
}

// holding records a handle that has begun, and returns a function that ends the record.
func (c *client) holding(k *redlock.Lock) (end func()) {
	holds := c.world.history.begin(c.id, k)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[*redlock.Lock][]*hold{}
	}
	c.held[k] = holds
	if k.Remaining() <= 0 {
		c.world.history.end(holds)
	}
	// The holder may do anything at that instant, for example wait for an extension.
	stop := context.AfterFunc(k.Context(), func() { c.world.history.end(holds) })
	return func() {
		stop()
		c.world.history.end(holds)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.held, k)
	}
}

// work acquires, holds and ends locks in different ways, again and again.
func (c *client) work(r *rand.Rand) {
	ttl := c.world.plan.ttl
	for range c.world.plan.rounds {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond+upTo(r, 12*ttl))
		if r.IntN(6) == 0 {
			c.do(ctx, r)
		} else if k, err := c.acquire(ctx, r); err == nil {
			c.hold(k, r)
		}
		cancel()
		time.Sleep(upTo(r, ttl))
	}
}

func (c *client) acquire(ctx context.Context, r *rand.Rand) (*redlock.Lock, error) {
	p := c.world.plan
	want := names[:1]
	switch r.IntN(8) {
	case 0, 1:
		want = names
	case 2:
		want = names[1:]
	}
	switch r.IntN(4) {
	case 0:
		return c.locker.TryAcquireAll(ctx, want, p.ttl, c.options(r)...)
	case 1:
		return c.locker.TryAcquire(ctx, names[0], p.ttl)
	}
	return c.locker.AcquireAll(ctx, want, p.ttl, c.options(r)...)
}

func (c *client) options(r *rand.Rand) []redlock.LockOption {
	ttl := c.world.plan.ttl
	switch r.IntN(7) {
	case 0, 1:
		return []redlock.LockOption{redlock.WithAutoExtend(), redlock.WithMaxHold(3 * ttl)}
	case 2:
		return []redlock.LockOption{redlock.WithMinHold(ttl / 2)}
	case 3:
		return []redlock.LockOption{redlock.WithAsyncRelease()}
	case 4:
		return []redlock.LockOption{redlock.WithMaxHold(ttl / 2)}
	}
	return nil
}

// do works under Do, with a share of the lease in parallel.
func (c *client) do(ctx context.Context, r *rand.Rand) {
	ttl := c.world.plan.ttl
	_ = c.locker.Do(ctx, names[0], ttl, func(ctx context.Context, k *redlock.Lock) error {
		end := c.holding(k)
		defer end()
		if share, err := c.locker.TryAcquire(ctx, names[0], ttl/2, redlock.WithShared()); err == nil {
			defer func() { _ = share.Release(context.WithoutCancel(ctx)) }()
		}
		c.use(k, upTo(r, ttl+ttl/2))
		return nil
	})
}

// hold uses the lock. Then it ends the lock, passes it on, or lets it expire.
func (c *client) hold(k *redlock.Lock, r *rand.Rand) {
	ttl := c.world.plan.ttl
	end := c.holding(k)
	if k.Names()[0] == names[1] {
		c.world.counts.add("second name alone", 1)
	}
	c.use(k, upTo(r, ttl+ttl/4)>>r.IntN(3))
	if r.IntN(3) == 0 {
		c.extend(k, r)
	}
	switch r.IntN(8) {
	case 0:
		<-k.Context().Done()
	case 1:
		_ = k.Check(context.Background())
	case 2:
		if p := c.world.plan; !p.repair && !p.unpassed { // docs/dev/rules.md rule 16: Resume is tested without repair
			end()
			c.pass(k, r)
			return
		}
	}
	end()
	_ = k.Release(context.Background())
}

// extend extends the lock by its TTL, by less, or by more. It is never more than the longest TTL of a scenario.
func (c *client) extend(k *redlock.Lock, r *rand.Rand) {
	ttl := c.world.plan.ttl
	by, kind := ttl, "extended"
	switch r.IntN(3) {
	case 0:
		by, kind = ttl/2, "extended by less"
	case 1:
		by, kind = c.world.plan.longest(), "extended by more"
	}
	if k.Extend(context.Background(), by) == nil {
		c.world.counts.add(kind, 1)
		c.use(k, upTo(r, by))
	}
}

// pass passes the lock to a handle of another client.
func (c *client) pass(k *redlock.Lock, r *rand.Rand) {
	claim, err := k.Detach()
	if err != nil {
		_ = k.Release(context.Background())
		return
	}
	other := c.world.clients[r.IntN(len(c.world.clients))]
	ctx, cancel := context.WithTimeout(context.Background(), c.world.plan.ttl)
	defer cancel()
	next, err := other.locker.Resume(ctx, claim)
	if err != nil {
		return // the lock expires by its TTL
	}
	c.world.counts.add("resumed", 1)
	end := other.holding(next)
	other.use(next, upTo(r, c.world.plan.ttl))
	end()
	_ = next.Release(context.Background())
}

// use reads the registers of the lock's names, works, and writes. Sometimes it is so slow that
// another client holds the lock when it writes.
func (c *client) use(k *redlock.Lock, d time.Duration) {
	h := c.world.history
	values := map[string]int{}
	c.world.trace.use(c.id, k)
	if k.Fence() != 0 {
		for _, name := range k.Names() {
			if v, ok := h.read(name, k); ok {
				values[name] = v
			} else if c.world.plan.excludes && k.Remaining() > 0 {
				h.refused(name, k)
			}
		}
	}
	work := time.NewTimer(d)
	defer work.Stop()
	select {
	case <-work.C:
	case <-k.Context().Done():
		if d%2 == 0 {
			<-work.C // this holder ignores its context
		}
	}
	c.world.trace.use(c.id, k)
	for name, v := range values {
		if h.write(name, k, v, v+1) {
			c.world.counts.add("written", 1)
		} else if c.world.plan.excludes && k.Remaining() > 0 {
			h.refused(name, k)
		}
	}
}
