//go:build unix

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/go-redlock/integration/contenders"
	"github.com/quorumlock/go-redlock/redlock"
)

// contention is the task of a process of contenders.
type contention struct {
	URLs       []string
	Names      []string // each lock has one of them, or several if there are several
	TTL        time.Duration
	Process    int
	Lockers    int
	Contenders int           // of each Locker
	First      time.Duration // when the first round of runOnce begins, by contenders.Uptime
}

// TestMain runs the contenders in a process that was started for them.
func TestMain(m *testing.M) {
	contenders.Main(tests{m}, func(ctx context.Context, c contention, log *contenders.Log) { c.run(ctx, log) })
}

// tests runs all tests, and removes what they share.
type tests struct{ *testing.M }

func (t tests) Run() int {
	status := t.M.Run()
	if folder, err := commandFolder(); err == nil {
		_ = os.RemoveAll(folder)
	}
	return status
}

// run contends until ctx ends.
func (c contention) run(ctx context.Context, log *contenders.Log) {
	if c.First > 0 {
		c.runOnce(ctx, log)
		return
	}
	lockers := make([]*redlock.Locker, c.Lockers)
	var all sync.WaitGroup
	for i := range lockers {
		l, err := redlock.Open(
			c.URLs,
			redlock.WithOwner(fmt.Sprintf("process-%d", c.Process)),
		)
		if err != nil {
			panic(err)
		}
		lockers[i] = l
		for j := range c.Contenders {
			k := &contender{contention: c, name: fmt.Sprintf("%d.%d.%d", c.Process, i, j), locker: l, log: log}
			all.Go(func() { k.contend(ctx) })
		}
	}
	all.Wait()
	for _, l := range lockers {
		log.Failed("close", closeWithin(l, patience))
	}
}

func closeWithin(l *redlock.Locker, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return l.Close(ctx)
}

// contender is one of the goroutines that contend for the lock.
type contender struct {
	contention
	name   string
	locker *redlock.Locker
	log    *contenders.Log
}

func (k *contender) contend(ctx context.Context) {
	for ctx.Err() == nil {
		names := k.choose()
		lock, err := k.acquire(ctx, names)
		from := contenders.Uptime()
		if err == nil {
			to := k.work(ctx, lock)
			k.log.Held(contenders.Hold{Contender: k.name, Names: names, From: from, To: to})
		} else {
			k.judge("acquire", err)
		}
		contenders.Idle(ctx, rand.N(20*time.Millisecond)) // gives other contenders a chance
	}
}

// choose returns one name, or a random set of several names.
func (k *contender) choose() []string {
	n := 1 + rand.N(len(k.Names))
	names := make([]string, n)
	for i, place := range rand.Perm(len(k.Names))[:n] {
		names[i] = k.Names[place]
	}
	return names
}

func (k *contender) acquire(ctx context.Context, names []string) (*redlock.Lock, error) {
	var opts []redlock.LockOption
	if one(20) {
		opts = append(opts, redlock.WithAutoExtend())
	}
	switch {
	case len(k.Names) > 1 && one(4):
		return k.locker.TryAcquireAll(ctx, names, k.TTL, opts...)
	case len(k.Names) > 1:
		return k.locker.AcquireAll(ctx, names, k.TTL, opts...)
	case one(4):
		return k.locker.TryAcquire(ctx, names[0], k.TTL, opts...)
	default:
		return k.locker.Acquire(ctx, names[0], k.TTL, opts...)
	}
}

// one returns true once in n times.
func one(n int) bool { return rand.N(n) == 0 }

// work holds the lock for a while and ends the hold in one of several ways. It returns the end of
// the time in which the holder could rely on the lock.
func (k *contender) work(ctx context.Context, lock *redlock.Lock) (to time.Duration) {
	contenders.Idle(ctx, rand.N(4*time.Millisecond))
	switch dice := rand.N(100); {
	case dice < 10:
		k.judge("extend", lock.Extend(ctx, k.TTL))
		contenders.Idle(ctx, rand.N(10*time.Millisecond))
	case dice == 10: // longer than the TTL, with or without automatic extension
		contenders.Idle(ctx, k.TTL*5/4)
	case dice == 11: // the holder dies: the lock is not released, and ends with its validity
		to = contenders.Uptime() + lock.Remaining()
		_, err := lock.Detach()
		k.judge("detach", err)
		return to
	}
	now := contenders.Uptime()
	to = now + min(0, lock.Remaining())
	k.judge("release", lock.Release(ctx))
	return to
}

// judge tolerates the errors that a fault may cause. Any other error is a defect.
func (k *contender) judge(what string, err error) {
	k.log.Judge(k.name+" "+what, err,
		redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrTooLate, redlock.ErrLost, context.Canceled)
}
