//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/go-redlock/integration/contenders"
	"github.com/quorumlock/go-redlock/redlock"
)

// Kinds of work.
const (
	short  = "short"       // much shorter than the TTL
	beyond = "beyond TTL"  // longer than the TTL, without extension: the lock is lost
	extend = "auto-extend" // longer than the TTL, with automatic extension
)

// task is the task of a process of contenders.
type task struct {
	URLs       []string
	Name       string
	TTL        time.Duration
	Work       string
	Process    int
	Contenders int
	Guard      bool
	Register   string
}

// crowd is how many goroutines of each process acquire names of their own, one of each process the same
// name. All try at the same instants, a beat apart, so nodes merge commands of several names, whatever
// befalls them.
const (
	crowd = 16
	beat  = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	contenders.Main(m, func(ctx context.Context, w task, log *contenders.Log) { w.run(ctx, log) })
}

// run contends until ctx ends.
func (w task) run(ctx context.Context, log *contenders.Log) {
	opts := []redlock.Option{
		redlock.WithFencing(),
		redlock.WithOwner(fmt.Sprintf("process-%d", w.Process)),
	}
	if w.Guard {
		opts = append(opts, redlock.WithRestartGuard(w.TTL))
	}
	locker, err := redlock.Open(w.URLs, opts...)
	if err != nil {
		panic(err)
	}
	r := dialResource(w.Register)
	var all sync.WaitGroup
	for i := range w.Contenders {
		c := &contender{task: w, name: fmt.Sprintf("%d.%d", w.Process, i), locker: locker, resource: r, log: log}
		all.Go(func() { c.contend(ctx) })
	}
	w.Work = short
	for i := range crowd {
		w.Name = fmt.Sprint("crowd", i)
		c := &contender{task: w, name: fmt.Sprintf("%d.%s", w.Process, w.Name), locker: locker, log: log}
		all.Go(func() { c.contend(ctx) })
	}
	all.Wait()
	ending, cancel := context.WithTimeout(context.Background(), contenders.Patience/2)
	defer cancel()
	log.Failed("close", locker.Close(ending))
	_ = r.conn.Close()
}

// contender is one of the goroutines that contend for the lock.
type contender struct {
	task
	name     string
	locker   *redlock.Locker
	resource *resource // nil in the crowd
	log      *contenders.Log
}

func (c *contender) contend(ctx context.Context) {
	var opts []redlock.LockOption
	if c.Work == extend {
		opts = append(opts, redlock.WithAutoExtend())
	}
	for ctx.Err() == nil {
		lock, err := c.locker.Acquire(ctx, c.Name, c.TTL, opts...)
		from := contenders.Uptime()
		if err != nil {
			c.judge("acquire", err)
		} else {
			c.hold(ctx, lock, from)
		}
		pause := rand.N(20 * time.Millisecond) // gives other contenders a chance
		if c.resource == nil {
			pause = beat - contenders.Uptime()%beat
		}
		contenders.Idle(ctx, pause)
	}
}

func (c *contender) hold(ctx context.Context, lock *redlock.Lock, from time.Duration) {
	base := int64(-1)
	if c.resource != nil {
		base = c.resource.open(lock)
	}
	switch c.Work {
	case short:
		contenders.Idle(ctx, rand.N(4*time.Millisecond))
	case beyond:
		contenders.Idle(ctx, c.TTL*5/4)
	case extend:
		both, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(lock.Context(), cancel)
		contenders.Idle(both, c.TTL*3/2)
		stop()
		cancel()
	}
	if base >= 0 {
		c.resource.write(lock, base)
	}
	now := contenders.Uptime()
	left := lock.Remaining()
	h := contenders.Hold{Contender: c.name, Names: lock.Names(), From: from, To: now + min(0, left), Fence: lock.Fence()}
	if left <= 0 {
		h.Lost = errors.Is(context.Cause(lock.Context()), redlock.ErrLost)
		if !h.Lost {
			c.log.Failed(c.name, fmt.Errorf("the validity ended %v ago, and the context ended with %w", -left, context.Cause(lock.Context())))
		}
	}
	c.judge("release", lock.Release(context.Background()))
	c.log.Held(h)
}

// judge tolerates the errors that a fault may cause. Any other error is a defect.
func (c *contender) judge(what string, err error) {
	c.log.Judge(c.name+" "+what, err,
		redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrTooLate, redlock.ErrLost, redlock.ErrQuarantined, context.Canceled)
}
