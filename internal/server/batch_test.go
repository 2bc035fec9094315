package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A merged call overtakes no command, and no command for its key overtakes it. Commands of a merged call have
// different keys. All batches of four commands are tried.
func TestMergingKeepsTheOrderOfEachKey(t *testing.T) {
	everyBatch(t, []func() *command.Command{
		func() *command.Command { return announcing("1", "a") },
		func() *command.Command { return announcing("2", "a") },
		func() *command.Command { return announcing("3", "b") },
		func() *command.Command { return releasing("1", "a") },
		func() *command.Command { return acquiring("2", "a") },
		func() *command.Command { return acquiring("4", "a", "b") },
		pinging,
	})
	everyBatch(t, []func() *command.Command{
		func() *command.Command { return announcing("1", "a") },
		func() *command.Command { return announcing("2", "b") },
		func() *command.Command { return fencing("3", "a") },
		func() *command.Command { return fencing("4", "b") },
		func() *command.Command { return acquiring("5", "a", "b") },
		func() *command.Command { return releasing("6", "b") },
	})
}

// everyBatch checks the order of all batches of four commands of these kinds.
func everyBatch(t *testing.T, kinds []func() *command.Command) {
	t.Helper()
	const length = 4
	batches := 1
	for range length {
		batches *= len(kinds)
	}
	for which := range batches {
		l := idle()
		l.writer.loaded = ^command.ScriptSet(0)
		position := map[*command.Command]int{}
		for i, left := 0, which; i < length; i, left = i+1, left/len(kinds) {
			c := kinds[left%len(kinds)]()
			position[c] = i
			enqueue(l.server, c)
		}
		l.writer.take()
		requireOrdered(t, l.writer.batch, position)
	}
}

// requireOrdered checks a batch, and the merged calls in it, by the position of each command in the
// queue.
func requireOrdered(t *testing.T, batch []*command.Command, position map[*command.Command]int) {
	t.Helper()
	require.Len(t, batch, len(position))
	share := func(a, b *command.Command) bool {
		return slices.ContainsFunc(a.Keys, func(key string) bool { return slices.Contains(b.Keys, key) })
	}
	for i, c := range batch {
		for _, later := range batch[i+1:] {
			if position[c] > position[later] && (later.MergeKind() == command.Alone || share(c, later)) {
				require.FailNow(t, "overtaken", "%v of %q by %v of %q", later.Op, later.Keys, c.Op, c.Keys)
			}
		}
		for j, one := range batch[i : i+int(c.Merged)] {
			require.NotEqual(t, command.Alone, one.MergeKind())
			require.Equal(t, c.MergeKind(), one.MergeKind())
			for _, other := range batch[i+j+1 : i+int(c.Merged)] {
				require.NotEqual(t, one.Keys, other.Keys)
			}
		}
	}
}

// The size of a write is bounded, because a command cannot be cancelled any more once it is written. Commands that are set aside to be
// merged count, too.
func TestABatchIsBounded(t *testing.T) {
	kinds := map[string]func(key string) *command.Command{
		"alone":    func(key string) *command.Command { return inspecting(key) },
		"releases": func(key string) *command.Command { return announcing("T", key) },
		"acquires": func(key string) *command.Command { return fencing("T", key) },
	}
	for name, kind := range kinds {
		batch := func(size, commands int) (taken, bytes int) {
			l := idle()
			l.writer.loaded = ^command.ScriptSet(0)
			for i := range commands {
				enqueue(l.server, kind(fmt.Sprint(i, strings.Repeat("x", size))))
			}
			more := l.writer.take()
			require.Equal(t, len(l.writer.batch) < commands, more)
			require.Equal(t, commands, len(l.writer.batch)+l.server.queue.len())
			for _, c := range l.writer.batch {
				bytes += c.Size()
			}
			return len(l.writer.batch), bytes
		}
		taken, _ := batch(1, 1000)
		require.Equal(t, maxBatch, taken, name)
		_, bytes := batch(100_000, 100)
		require.LessOrEqual(t, bytes, maxBatchBytes, name)
		require.Greater(t, bytes, maxBatchBytes/2, name)
		taken, _ = batch(3*maxBatchBytes, 2)
		require.Equal(t, 1, taken, "%s: one goes, however large", name)
	}
}

// Commands that one goroutine submits in a row, such as extensions that are due together, are left
// to the writer. It takes many of them at a time.
func TestABurstOfOneGoroutineSharesWrites(t *testing.T) {
	const commands = 3 * maxBatch
	inBubble(t, func(t *testing.T, _ *fakeredis.Master, s *Server) {
		before, got := s.Writes.Load(), make(answers, commands)
		for range commands {
			c := inspecting("k")
			c.To = got
			enqueue(s, c)
		}
		s.queue.wake.Set()
		synctest.Wait()
		require.Len(t, got, commands)
		require.LessOrEqual(t, s.Writes.Load()-before, int64(commands/maxBatch))
	})
}

// A health check would wake the writer ten seconds later.
func TestACommandWakesTheWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeredis.Master, s *Server) {
		began, got := time.Now(), make(answers, 1)
		for range 3 {
			c := pinging()
			c.To = got
			require.NoError(t, s.Submit(c, nil))
			require.Equal(t, command.Granted, (<-got).Outcome)
			synctest.Wait() // the writer sleeps
		}
		require.Zero(t, time.Since(began))
	})
}

// Among many callers the writer lets them queue before it writes. For a single caller it does not,
// except for a short time after others were there.
func TestCompanyIsRememberedForAWhile(t *testing.T) {
	l := idle()
	w := l.writer
	write := func(commands, answered int) {
		w.batch = make([]*command.Command, commands)
		l.server.Answered.Add(int64(answered))
		w.recordBatch()
	}
	for range 10 {
		write(1, 1)
		require.False(t, w.recentlyBusy(), "one caller")
	}
	for _, many := range [][2]int{{500, 1}, {1, 500}} {
		write(many[0], many[1])
		for range batchMemory - batchThreshold {
			require.True(t, w.recentlyBusy(), "company")
			write(1, 1)
		}
		write(1, 1)
		require.False(t, w.recentlyBusy(), "long ago")
	}
}
