package redlock

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// with returns the lines of the log so far that contain a text.
func (b *logged) with(text string) (lines []string) {
	synctest.Wait()
	for _, line := range b.lines() {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

const (
	lacksKeys  = "a node no longer has the keys of held locks"
	hasAllKeys = "no held lock lacks its keys on a node any more"
	isSilent   = "a node does not extend held locks"
	isBack     = "a node answers extensions again"
	didNotRun  = "this process did not run"
)

func TestANodeThatLostTheKeysOfTenThousandLocksIsOneLine(t *testing.T) {
	const many = 10_000
	log := &logged{}
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		held := make([]*Lock, many)
		for i := range held {
			k, err := l.TryAcquire(bg, strconv.Itoa(i), 30*time.Second, WithAutoExtend())
			require.NoError(t, err)
			held[i] = k
		}
		for i := range many {
			nodes[0].forgetKey(strconv.Itoa(i))
		}
		pass(25 * time.Second)
		lines := log.with(lacksKeys)
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "level=WARN")
		require.Contains(t, lines[0], "node=n1")
		require.Contains(t, lines[0], `left="2 of 3"`)
		require.Regexp(t, `locks=[1-9]\d*`, lines[0])
		require.Len(t, log.lines(), 1, "%v", log.lines())
		for _, k := range held {
			require.NoError(t, k.Release(bg))
		}
		lines = log.with(hasAllKeys)
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "level=INFO")
		require.Contains(t, lines[0], "node=n1 locks=10000")
		require.Len(t, log.lines(), 2)
	}, WithLogger(log.logger()))
}

func TestANodeThatLostOneKeyIsAWarningWhichEndsWithTheRepair(t *testing.T) {
	for name, opts := range map[string][]Option{"with repair": {WithRepair()}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			inBubble(t, 3, func(fl *testbed) {
				fl.lateAt(2)
				l := fl.guarded(append(opts, WithLogger(log.logger()))...)
				k := take(t, l, "a", 2*time.Second, WithAutoExtend())
				require.Empty(t, log.with(lacksKeys))
				fl.masters[0].Del("a")
				pass(2 * time.Second)
				fl.answered()
				lines := log.with(lacksKeys)
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], `node=n1 locks=1 left="2 of 3"`)
				require.NoError(t, k.Context().Err())
				require.Len(t, log.with(hasAllKeys), len(opts), "the repair restored it")
				require.NoError(t, k.Release(bg))
				require.Len(t, log.with(hasAllKeys), 1, "or the lock has ended")
				require.Len(t, log.with(lacksKeys), 1)
			})
		})
	}
}

// It had the key of another lock, which was about to end.
func TestANodeThatRefusedTheAcquisitionHasLostNothing(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // the others decide
		fl.masters[0].Set("a", "x", time.Second)
		k := take(t, fl.locker(WithLogger(log.logger())), "a", 3*time.Second, WithAutoExtend())
		pass(10 * time.Second)
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Empty(t, log.lines())
	})
}

func TestANodeThatDoesNotExtendIsOneWarningUntilItDoes(t *testing.T) {
	for name, fail := range map[string]func(m *fakeredis.Master) (heal func()){
		"it answers by errors": func(m *fakeredis.Master) func() { return failing(m) },
		"it is silent": func(m *fakeredis.Master) func() {
			m.Freeze()
			return m.Unfreeze
		},
		"it is down": func(m *fakeredis.Master) func() {
			m.Stop()
			return func() { _ = m.Restart(true) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			inBubble(t, 3, func(fl *testbed) {
				fl.lateAt(2)
				l := fl.locker(WithLogger(log.logger()))
				a, b := take(t, l, "a", 30*time.Second, WithAutoExtend()), take(t, l, "b", 30*time.Second, WithAutoExtend())
				heal := fail(fl.masters[0])
				pass(time.Minute)
				lines := log.with(isSilent)
				require.Len(t, lines, 1, "%v", log.lines())
				require.Contains(t, lines[0], "node=n1 error=")
				require.NoError(t, b.Release(bg))
				k := take(t, l, "c", 30*time.Second, WithAutoExtend()) // a lock of its own does not begin it again
				pass(time.Minute)
				require.Len(t, log.with(isSilent), 1)
				require.Empty(t, log.with(isBack))
				heal()
				pass(time.Minute)
				lines = log.with(isBack)
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], "level=INFO")
				require.Contains(t, lines[0], "node=n1 locks=2")
				require.NoError(t, a.Err())
				require.NoError(t, a.Release(bg))
				require.NoError(t, k.Release(bg))
				fl.answered()
				require.Len(t, log.with(isSilent), 1)
				require.Len(t, log.with(isBack), 1)
			})
		})
	}
}

// Nodes that answer nothing are silent for longer than a lock with a short TTL lives. Each is a warning
// before the loss that they cause.
func TestNodesThatAreSilentAreWarningsBeforeTheLockIsLost(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		k := take(t, l, "a", 4*time.Second, WithAutoExtend())
		for _, m := range fl.masters[:2] {
			m.Freeze()
		}
		<-k.Context().Done()
		synctest.Wait()
		lines := log.with(isSilent)
		require.Len(t, lines, 2, "%v", log.lines())
		require.Contains(t, lines[0], `node=n1 error="no answer within the node timeout"`)
		require.Contains(t, lines[1], "node=n2")
		all := log.lines()
		require.Less(t, slices.Index(all, lines[1]), slices.Index(all, log.ends()[0]))
	})
}

// Two nodes fail and cause a loss while the answers of the third are still under way. That one grants each
// extension, and is no warning.
func TestANodeWhoseAnswerIsUnderWayIsNoWarningBeforeTheLockIsLost(t *testing.T) {
	log := &logged{}
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		for _, n := range nodes[:2] {
			n.script = answerTo(command.Extend, command.Reply{Outcome: command.Failed, Err: errSome})
		}
		extendsAfter(nodes[2], 100*time.Millisecond)
		k := take(t, l, "a", 4*time.Second, WithAutoExtend())
		<-k.Context().Done()
		require.ErrorIs(t, k.Err(), ErrLost)
		pass(time.Second)
		lines := log.with(isSilent)
		require.Len(t, lines, 2, "%v", log.lines())
		require.Contains(t, lines[0], "node=n1 error=")
		require.Contains(t, lines[1], "node=n2 error=")
	}, WithLogger(log.logger()))
}

// extendsAfter makes a node answer each extension after that time.
func extendsAfter(n *fakeNode, d time.Duration) {
	n.script = func(n *fakeNode, c *command.Command) bool {
		if c.Op == command.Extend {
			c.MarkSent()
			time.AfterFunc(d, func() { c.Answer(n.execute(c)) })
		}
		return c.Op == command.Extend
	}
}

// A quorum that confirms an extension ends the hurry: the log waits for the answers of all nodes.
func TestAnExtensionThatAQuorumConfirmsLateIsNoWarningBeforeAllHaveAnswered(t *testing.T) {
	log := &logged{}
	inFakes(t, 5, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		nodes[0].script = answerTo(command.Extend, command.Reply{Outcome: command.Failed, Err: errSome})
		extendsAfter(nodes[3], 2200*time.Millisecond) // more than half of the TTL
		extendsAfter(nodes[4], 2400*time.Millisecond)
		k := take(t, l, "a", 4*time.Second)
		require.NoError(t, k.Extend(bg, 4*time.Second))
		require.Empty(t, log.with(isSilent))
		pass(200 * time.Millisecond)
		lines := log.with(isSilent)
		require.Len(t, lines, 1, "%v", log.lines())
		require.Contains(t, lines[0], "node=n1 error=")
		require.NoError(t, k.Release(bg))
	}, WithLogger(log.logger()), WithNodeTimeout(3*time.Second))
}

// An extension that fails at first, because this process or the network stood still for a moment, is no
// warning: there is time for the next ones.
func TestASilenceThatEndsSoonIsNoWarning(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		k := take(t, l, "a", 30*time.Second, WithAutoExtend())
		pass(9 * time.Second)
		fl.each(func(m *fakeredis.Master) { m.Freeze() })
		pass(2 * time.Second)
		fl.each(func(m *fakeredis.Master) { m.Unfreeze() })
		pass(time.Minute)
		require.NoError(t, k.Err())
		require.Empty(t, log.with(isSilent))
		require.Empty(t, log.with(isBack))
		require.NoError(t, k.Release(bg))
	})
}

// One shard of a Redis Cluster may be down: other locks are extended on the same node.
func TestANodeThatExtendsOtherLocksIsNotBack(t *testing.T) {
	log := &logged{}
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		nodes[0].script = func(_ *fakeNode, c *command.Command) bool {
			if c.Op == command.Extend && c.Keys[0] == "bad" {
				c.MarkSent()
				c.Answer(command.Reply{Outcome: command.Failed, Err: errSome})
				return true
			}
			return false
		}
		bad, good := take(t, l, "bad", 3*time.Second, WithAutoExtend()), take(t, l, "good", 3*time.Second, WithAutoExtend())
		pass(time.Minute)
		require.Len(t, log.with(isSilent), 1)
		require.Empty(t, log.with(isBack))
		require.NoError(t, bad.Release(bg))
		pass(3 * time.Second)
		require.Len(t, log.with(isBack), 1)
		require.NoError(t, good.Release(bg))
	}, WithLogger(log.logger()))
}

func TestALockThatIsLostIsNoLineForEachNode(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		take(t, fl.locker(WithLogger(log.logger())), "a", 3*time.Second, WithAutoExtend())
		fl.each(func(m *fakeredis.Master) { m.FlushAll() })
		pass(3 * time.Second)
		fl.answered()
		require.Len(t, log.lines(), 1, "%v", log.lines())
		require.Len(t, log.ends(), 1)
	})
}

func TestAPauseOfTheProcessIsOneWarningIfItIsLong(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		const ttl = 10 * time.Second
		a, b := take(t, l, "a", ttl, WithAutoExtend()), take(t, l, "b", ttl, WithAutoExtend())
		take(t, l, "c", time.Minute)
		fl.clock.Advance(ttl / 5)
		pass(time.Minute - ttl)
		require.Empty(t, log.with(didNotRun), "it endangers no lock")
		fl.clock.Advance(ttl / 3)
		pass(5 * time.Second)
		lines := log.with(didNotRun)
		require.Len(t, lines, 1, "one for all locks")
		require.Contains(t, lines[0], "level=WARN")
		require.Contains(t, lines[0], "locks=2")
		require.Regexp(t, `for=3\.\d+s`, lines[0])
		require.NoError(t, a.Err())
		require.NoError(t, b.Err())
	})
}

// A goroutine of the user may notice the end before any timer has run.
func TestTheLogHasThePauseBeforeTheLossThatItCaused(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(WithLogger(log.logger())), "a", 5*time.Second, WithAutoExtend())
		fl.clock.Suspend(7 * time.Second)
		require.Error(t, k.Err())
		pass(time.Second)
		fl.answered()
		require.Equal(t, []string{"WARN this process did not run", "WARN lock ended under its holder"}, log.newLines(t))
	})
}
