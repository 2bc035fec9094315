//go:build !race

package redlock

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// What ends for each of many things takes time in proportion to their number. The time is compared with
// that of making them, which a busy machine slows down as well: with a step for each pair it would be
// hundreds of times as long. (Contexts have a benchmark.)
func TestEndsAreLinear(t *testing.T) {
	const many = 10_000
	for what, prepare := range map[string]func(t *testing.T, l *Locker) (end func()){
		"Release of a lock with shares": func(t *testing.T, l *Locker) (end func()) {
			t.Helper()
			k := acquireIdle(t, l, "a")
			for range many {
				shared(t, k)
			}
			return func() { require.NoError(t, k.Release(bg)) }
		},
		"Release of a lock whose shares have shares": func(t *testing.T, l *Locker) (end func()) {
			t.Helper()
			k := acquireIdle(t, l, "a")
			for range many / 2 {
				shared(t, shared(t, k))
			}
			return func() { require.NoError(t, k.Release(bg)) }
		},
		"questions about shares within the stop margin": func(t *testing.T, l *Locker) (end func()) {
			t.Helper()
			k := acquireIdle(t, l, "a")
			shares := make([]*Lock, many)
			for i := range shares {
				shares[i] = shared(t, k)
			}
			k.mu.Lock()
			k.lease.Terms.StopMargin = time.Hour // as if only so much was left
			k.mu.Unlock()
			return func() {
				for _, s := range shares {
					require.Error(t, context.Cause(s.Context()))
				}
			}
		},
		"Close with waiters for one name": func(t *testing.T, l *Locker) (end func()) {
			t.Helper()
			held := []*Lock{acquireIdle(t, l, "a")}
			return closeWith(t, l, waitersFor(t, l, many, "a"), held)
		},
		"Close with waiters for many names": func(t *testing.T, l *Locker) (end func()) {
			t.Helper()
			held := acquireMany(t, l, many)
			var names []string
			for _, k := range held {
				names = append(names, k.Names()...)
			}
			return closeWith(t, l, waitersFor(t, l, 1, names...), held)
		},
		"Close that waits for the holders": func(t *testing.T, l *Locker) (end func()) {
			t.Helper()
			return closeWith(t, l, func() {}, acquireMany(t, l, many))
		},
		"Close that gives up on the holders": func(t *testing.T, l *Locker) (end func()) {
			t.Helper()
			for _, k := range acquireMany(t, l, many) {
				k.Context()
			}
			ctx, cancel := context.WithCancel(bg)
			cancel()
			return func() { require.ErrorContains(t, l.Close(ctx), "and 9995 more") }
		},
	} {
		t.Run(what, func(t *testing.T) {
			var took, most time.Duration
			for range 3 { // a busy machine stops the process during one of them
				nodes := make([]command.Voter, 3)
				for i := range nodes {
					nodes[i] = newFake("n" + strconv.Itoa(i))
				}
				l, err := newOver(nodes)
				require.NoError(t, err)
				began := time.Now()
				end := prepare(t, l)
				most = time.Second + 20*time.Since(began)
				began = time.Now()
				end()
				if took = time.Since(began); took < most {
					return
				}
			}
			require.Less(t, took, most)
		})
	}
}

// acquireIdle acquires a lock outside of a bubble.
func acquireIdle(t *testing.T, l *Locker, name string) *Lock {
	t.Helper()
	k, err := l.Acquire(bg, name, time.Hour)
	require.NoError(t, err)
	return k
}

func acquireMany(t *testing.T, l *Locker, many int) (held []*Lock) {
	t.Helper()
	for i := range many {
		held = append(held, acquireIdle(t, l, strconv.Itoa(i)))
	}
	return held
}

// waitersFor has so many goroutines wait for each name. wait returns when Close has ended all of them.
func waitersFor(t *testing.T, l *Locker, many int, names ...string) (wait func()) {
	t.Helper()
	var waiters sync.WaitGroup
	for _, name := range names {
		for range many {
			waiters.Go(func() {
				_, err := l.Acquire(bg, name, time.Hour)
				assert.ErrorIs(t, err, ErrClosed)
			})
		}
	}
	for _, name := range names {
		for l.waiting.Queued(name) < many {
			time.Sleep(time.Millisecond)
		}
	}
	return waiters.Wait
}

// closeWith returns a function that closes l, waits for its waiters, and then releases what is held.
func closeWith(t *testing.T, l *Locker, wait func(), held []*Lock) (end func()) {
	t.Helper()
	return func() {
		closed := make(chan error, 1)
		go func() { closed <- l.Close(bg) }()
		wait()
		for _, k := range held {
			require.NoError(t, k.Release(bg))
		}
		require.NoError(t, <-closed)
	}
}
