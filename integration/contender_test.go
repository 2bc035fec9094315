//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// contention is what a process of contenders is told, as JSON in its environment: this test binary runs itself again.
type contention struct {
	URLs       []string
	Names      []string // each lock takes one of them, or several when there are several
	TTL        time.Duration
	Process    int
	Lockers    int
	Contenders int // of each Locker
}

const contentionEnv = "REDLOCK_TEST_CONTENTION"

// TestMain makes the process a contender's where it was started as one.
func TestMain(m *testing.M) {
	told := os.Getenv(contentionEnv)
	if told == "" {
		os.Exit(m.Run())
	}
	var c contention
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		panic(err)
	}
	os.Exit(c.run(os.Stdin, os.Stdout))
}

// run contends until in ends, and writes a line for every hold.
func (c contention) run(in io.Reader, out io.Writer) (exit int) {
	left := redistest.NoGoroutines(exitTB{})
	ctx, stop := context.WithCancel(context.Background())
	log := &holdLog{out: bufio.NewWriter(out)}
	lockers := make([]*redlock.Locker, c.Lockers)
	var all sync.WaitGroup
	for i := range lockers {
		l, err := redlock.Open(
			c.URLs,
			redlock.WithOwner(fmt.Sprintf("process-%d", c.Process)),
			redlock.WithBackoff(time.Millisecond, 20*time.Millisecond), // contenders that ask often meet often
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
	_, _ = io.Copy(io.Discard, in)
	stop()
	all.Wait()
	for _, l := range lockers {
		log.failed("close", closeWithin(l, patience))
	}
	left()
	return 0
}

func closeWithin(l *redlock.Locker, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return l.Close(ctx)
}

// exitTB is what a test's helper may use where there is no test: it ends the process.
type exitTB struct{ testing.TB }

func (exitTB) Helper() {}

func (exitTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// uptime is a clock that all processes of the machine share, and that nobody sets.
func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// holdLog writes what happened, a line each, at once: the parent counts them.
type holdLog struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (l *holdLog) held(h hold) {
	l.line("held %s %s %d %d\n", h.contender, strings.Join(h.names, ","), h.from, h.to)
}

// failed tells what may not happen to anybody, whatever the nodes do.
func (l *holdLog) failed(what string, err error) {
	if err != nil {
		l.line("failed %s: %v\n", what, strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

func (l *holdLog) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.out, format, args...)
	_ = l.out.Flush()
}

// contender is one of the goroutines that want the lock.
type contender struct {
	contention
	name   string
	locker *redlock.Locker
	log    *holdLog
}

func (k *contender) contend(ctx context.Context) {
	for ctx.Err() == nil {
		names := k.choose()
		lock, err := k.acquire(ctx, names)
		from := uptime()
		if err == nil {
			to := k.work(ctx, lock)
			k.log.held(hold{contender: k.name, names: names, from: from, to: to})
		} else {
			k.judge("acquire", err)
		}
		idle(ctx, rand.N(20*time.Millisecond)) // others are to have a chance
	}
}

// choose is one name, or, where there are several, a set of some.
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

// one is true once in n times.
func one(n int) bool { return rand.N(n) == 0 }

// work holds the lock for a while and ends the hold in one of the ways that there are. It returns until when the holder could take the
// lock for its own.
func (k *contender) work(ctx context.Context, lock *redlock.Lock) (to time.Duration) {
	idle(ctx, rand.N(4*time.Millisecond))
	switch dice := rand.N(100); {
	case dice < 10:
		k.judge("extend", lock.Extend(ctx, k.TTL))
		idle(ctx, rand.N(10*time.Millisecond))
	case dice == 10: // longer than the TTL, with or without extension
		idle(ctx, k.TTL*5/4)
	case dice == 11: // it dies: nobody releases, and the lock is its own until the validity is over
		to = uptime() + lock.Remaining()
		_, err := lock.Detach()
		k.judge("detach", err)
		return to
	}
	now := uptime()
	to = now + min(0, lock.Remaining())
	k.judge("release", lock.Release(ctx))
	return to
}

// judge lets pass what a fault may do to a caller. Everything else is a defect.
func (k *contender) judge(what string, err error) {
	for _, fine := range []error{redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrTooLate, redlock.ErrLost, context.Canceled} {
		if errors.Is(err, fine) {
			return
		}
	}
	k.log.failed(k.name+" "+what, err)
}

// idle waits for d, or until ctx is done.
func idle(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
