package redlock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// This file has what the tests of waiting share.

// won is the result of an Acquire that runs in the background.
type won struct {
	k    *Lock
	err  error
	took time.Duration // since the call
	at   time.Time
}

// wants calls Acquire in the background. The channel receives its result at once.
func wants(ctx context.Context, l *Locker, names ...string) <-chan won {
	done := make(chan won, 1)
	go func() {
		began := time.Now()
		k, err := l.AcquireAll(ctx, names, time.Minute)
		done <- won{k, err, time.Since(began), time.Now()}
	}()
	return done
}

// waitingFor is wants, and returns when the Acquire waits and its subscription is in effect.
func waitingFor(ctx context.Context, l *Locker, names ...string) <-chan won {
	done := wants(ctx, l, names...)
	time.Sleep(200 * time.Millisecond)
	bedOf(l).answered()
	return done
}

// gets waits for an Acquire in the background that must succeed.
func gets(t *testing.T, done <-chan won) won {
	t.Helper()
	w := <-done
	require.NoError(t, w.err)
	return w
}

// subscribers returns a master's connections that have subscribed.
func subscribers(m *fakeredis.Master) (list []*fakeredis.Client) {
	var ids []int64
	for _, e := range m.Log() {
		if e.Name == "SUBSCRIBE" && !slices.Contains(ids, e.Client) {
			ids = append(ids, e.Client)
		}
	}
	for _, id := range ids {
		if c := m.Client(id); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// scriptNames lists the scripts and the SETs that a master was sent, in order.
func scriptNames(m *fakeredis.Master) (list []string) {
	for _, e := range m.Log() {
		if e.Name == "SET" {
			list = append(list, "SET")
		}
		for _, s := range command.Scripts() {
			if e.Name == "EVALSHA" && e.Args[0] == s.Hash {
				list = append(list, s.Name)
			}
		}
	}
	return list
}

// onRelease calls f once, when a master is about to execute a release.
func onRelease(m *fakeredis.Master, f func()) {
	done := false
	m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
		if isScript(command.Release, cmd, args) && !done {
			done = true
			f()
		}
		return "", false
	})
}

// quiet checks that a Locker has no state of holders or waiters, and no subscription.
func quiet(t *testing.T, l *Locker) {
	t.Helper()
	names, channels := l.waiting.Size()
	require.Zero(t, names)
	require.Zero(t, channels)
}

// publisher returns a function that publishes the release of a name on a master.
func publisher(t *testing.T, m *fakeredis.Master, name, payload string) (publish func()) {
	t.Helper()
	raw, err := m.Dial(bg, "", "")
	require.NoError(t, err)
	c := redis.NewConn(raw, 0, 0)
	t.Cleanup(func() { _ = c.Close() })
	return func() {
		_, err := c.Do("PUBLISH", command.FreePrefix+name, payload)
		assert.NoError(t, err)
	}
}

// announced returns how many releases a master was asked to announce.
func announced(m *fakeredis.Master) (n int) {
	for _, s := range scriptNames(m) {
		if strings.HasSuffix(s, "+announce") {
			n++
		}
	}
	return n
}
