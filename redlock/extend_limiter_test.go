package redlock

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// behind is how many locks of many locks wait in the queue after those that are being extended.
const behind = 3

// manyLocks has more locks than are extended at a time. Its nodes answer an extension only if its lock
// is in free.
type manyLocks struct {
	l     *Locker
	locks []*Lock // in the order in which they fall due

	mu   sync.Mutex
	asks map[string]int // extensions by name, on the first node
	free map[string]bool
	kept []func() // the answers that are held back
}

// inManyLocks runs f in a bubble when all locks are due.
func inManyLocks(t *testing.T, f func(t *testing.T, c *manyLocks), opts ...LockOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// With so long a node timeout an unanswered extension stays undecided.
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()), WithNodeTimeout(50*time.Second))
		c := &manyLocks{l: l, asks: map[string]int{}, free: map[string]bool{}}
		for i, n := range nodes {
			n.script = func(n *fakeNode, cmd *command.Command) bool { return c.keep(i, n, cmd) }
		}
		for i := range maxExtending + behind {
			k, err := l.TryAcquire(bg, strconv.Itoa(i), time.Minute, append(opts, WithAutoExtend())...)
			require.NoError(t, err)
			c.locks = append(c.locks, k)
			time.Sleep(time.Microsecond) // virtual
		}
		pass(c.last().lease.Terms.Interval)
		f(t, c)
	})
}

func (c *manyLocks) last() *Lock { return c.locks[len(c.locks)-1] }

func (c *manyLocks) keep(node int, n *fakeNode, cmd *command.Command) bool {
	if cmd.Op != command.Extend {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if node == 0 {
		c.asks[cmd.Keys[0]]++
	}
	if c.free == nil || c.free[cmd.Keys[0]] {
		return false
	}
	cmd.MarkSent()
	c.kept = append(c.kept, func() { cmd.Answer(n.execute(cmd)) })
	return true
}

// answerAll answers the extensions that were held back, and all later ones.
func (c *manyLocks) answerAll() {
	c.mu.Lock()
	kept := c.kept
	c.kept, c.free = nil, nil
	c.mu.Unlock()
	for _, answer := range kept {
		answer()
	}
	synctest.Wait()
}

// asked lists how many extensions of each lock the first node received. Equal neighbours among the
// locks that are extended first count once. The locks in the queue follow, each by itself.
func (c *manyLocks) asked() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]int, len(c.locks))
	for i := range list {
		list[i] = c.asks[strconv.Itoa(i)]
	}
	last := slices.Clone(list[maxExtending:])
	return append(slices.Compact(list[:maxExtending]), last...)
}

// Many locks fall due together. Only so many extensions are under way as the limit allows. The
// others are sent once as soon as there is room, without retries.
func TestLocksThatFallDueTogetherAreExtendedInTheirTurn(t *testing.T) {
	inManyLocks(t, func(t *testing.T, c *manyLocks) {
		require.Equal(t, []int{1, 0, 0, 0}, c.asked())
		c.answerAll()
		require.Equal(t, []int{1, 1, 1, 1}, c.asked())
		for _, k := range c.locks {
			require.Greater(t, k.Remaining(), 50*time.Second)
		}
		require.Nil(t, c.l.extendLimiter.queue)
		require.Zero(t, c.l.extendLimiter.inFlight)
	})
}

// No lock is lost because others are ahead of it: a lock with a third of its time left is extended
// at once.
func TestALockWaitsForItsTurnNoLongerThanItHasTimeFor(t *testing.T) {
	for _, margin := range []time.Duration{0, 20 * time.Second} {
		var opts []LockOption
		if margin > 0 {
			opts = append(opts, WithStopMargin(margin))
		}
		inManyLocks(t, func(t *testing.T, c *manyLocks) {
			third := c.last().lease.Terms.Interval
			pass(third - time.Second)
			require.Equal(t, []int{1, 0, 0, 0}, c.asked())
			pass(time.Second)
			require.Equal(t, []int{1, 1, 1, 1}, c.asked())
			c.answerAll()
			require.Equal(t, []int{2, 1, 1, 1}, c.asked(), "those in front are due again; the others were in line as well")
		}, opts...)
	}
}

// A lock in the queue that is extended or released by its caller leaves the queue.
func TestALockThatWasExtendedOrReleasedMeanwhileHasNoTurn(t *testing.T) {
	inManyLocks(t, func(t *testing.T, c *manyLocks) {
		extended, released := c.last(), c.locks[maxExtending]
		c.mu.Lock()
		c.free[extended.hold.Names[0]] = true
		c.mu.Unlock()
		require.NoError(t, extended.Extend(bg, time.Minute))
		require.NoError(t, released.Release(bg))
		c.answerAll()
		require.Equal(t, []int{1, 0, 1, 1}, c.asked())
	})
}

// Otherwise the lock that has waited longest could wait until it has hardly any time left.
func TestTheLockThatHasWaitedLongestIsExtendedFirst(t *testing.T) {
	inManyLocks(t, func(t *testing.T, c *manyLocks) {
		c.mu.Lock()
		first := c.kept[:3] // of one lock, on three nodes
		c.kept = c.kept[3:]
		c.mu.Unlock()
		for _, answer := range first {
			answer()
		}
		synctest.Wait()
		require.Equal(t, []int{1, 1, 0, 0}, c.asked())
		c.answerAll()
	})
}
