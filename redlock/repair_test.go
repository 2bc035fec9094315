package redlock

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/late"
)

// repairs returns how many repairs a master was sent.
func repairs(m *fakeredis.Master) int {
	return scripts(m, "repair")
}

// detachedSoon calls Detach in the background. The returned function reports whether it has
// returned once all goroutines are idle.
func detachedSoon(k *Lock) (claim chan Claim, soon func() bool) {
	claim = make(chan Claim, 1)
	go func() {
		c, _ := k.Detach()
		claim <- c
	}()
	return claim, func() bool { synctest.Wait(); return len(claim) == 1 }
}

func TestALostCopyComesBackAfterTheExtensionThatFoundItGone(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.guarded(WithRepair(), WithFencing())
		k := take(t, l, "a", 4*time.Second)
		m := fl.masters[2]
		m.Del("a")
		m.Del(command.FencePrefix + "a")
		m.ForgetLog()
		require.NoError(t, k.Extend(bg, 6*time.Second))
		fl.answered()
		v, ok := m.Get("a")
		require.True(t, ok)
		require.Equal(t, k.Token(), v)
		require.Equal(t, 4*time.Second, m.TTL("a"))
		c, _ := m.Get(command.FencePrefix + "a")
		fence, _ := fl.masters[0].Get(command.FencePrefix + "a")
		require.Equal(t, fence, c, "it carries the fence")
		require.Equal(t, 1, repairs(m))
		require.Zero(t, repairs(fl.masters[0]))
		require.NoError(t, k.Release(bg))
		fl.releasedEverywhere("a")
		require.Zero(t, booked(l))
	})
}

// A repaired node does not count in the round that repaired it, because that round had a majority
// without it.
func TestARepairNeedsAMajorityWithoutIt(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.guarded(WithRepair())
		k := take(t, l, "a", 4*time.Second)
		fl.masters[2].Del("a")
		fl.masters[1].Hook(func(_ int64, cmd string, _ []string) (string, bool) { return "LOADING", cmd == "EVALSHA" })
		require.ErrorIs(t, k.Extend(bg, 4*time.Second), ErrNoQuorum)
		pass(time.Second)
		require.Zero(t, repairs(fl.masters[2]))
		require.Equal(t, 2, fl.keys("a"))
		fl.masters[1].Hook(nil)
		require.NoError(t, k.Extend(bg, 4*time.Second))
		fl.heldEverywhere("a")
	})
}

func TestWithoutWithRepairNothingIsRepaired(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.guarded(), "a", 4*time.Second)
		fl.masters[2].Del("a")
		require.NoError(t, k.Extend(bg, 4*time.Second))
		pass(time.Second)
		require.Equal(t, 2, fl.keys("a"))
	})
}

// docs/dev/hazards.md H115: a copy made in quarantine would replace a grant that the node has lost.
func TestANodeInQuarantineIsNotRepairedUntilItVotesAgain(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.guarded(WithRepair())
		k := take(t, l, "a", 3*time.Second, WithAutoExtend())
		m := fl.masters[2]
		require.NoError(t, m.Restart(false))
		pass(guardTTL - time.Second)
		_, ok := m.Get("a")
		require.False(t, ok)
		require.Positive(t, repairs(m), "it was tried")
		require.Less(t, repairs(m), 25, "once after each extension")
		pass(5 * time.Second)
		v, ok := m.Get("a")
		require.True(t, ok)
		require.Equal(t, k.Token(), v)
		require.NoError(t, k.Release(bg))
	})
}

// docs/dev/hazards.md H115, by hand: A holds on n1 and n2. B has n3, which loses B's grant, and A
// repairs its copy there. B then gets n1. If n3 counted for A, both would hold the lock.
func TestARepairDoesNotTakeThePlaceOfAForgottenGrant(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		inBubbles(t, 3, func(fl *testbed) {
			l := fl.guarded(WithRepair())
			k := take(t, l, "a", 4*time.Second)
			n1, n3 := fl.masters[0], fl.masters[2]
			n3.Set("a", "B", 4*time.Second) // B's grant, which has n3 and not yet a quorum
			n3.FlushAll()
			if !guarded {
				n3.Set(guard.Key, l.guard.Marker(n3.RunID(), zeros, "n3"), 0)
			}
			require.NoError(t, k.Extend(bg, 4*time.Second))
			fl.answered()
			n1.Set("a", "B", 4*time.Second) // A's key expires early, and B gets its second vote
			err := k.Extend(bg, 4*time.Second)
			if guarded {
				require.Error(t, err)
				return
			}
			require.NoError(t, err, "the negative control: both hold it")
		})
	}
}

const zeros = "0000000000000000000000000000000000000000"

// docs/dev/rules.md rules 5 and 6: a repair that was sent is undone by a command that follows it.
func TestARepairThatIsNotAnsweredIsUndoneInItsOrder(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.guarded(WithRepair())
		k := take(t, l, "a", 4*time.Second)
		m := fl.masters[2]
		m.Del("a")
		freezeAt(m, "repair+guard")
		require.NoError(t, k.Extend(bg, 4*time.Second))
		fl.answered()
		require.NoError(t, k.Release(bg))
		pass(time.Second)
		m.Hook(nil)
		m.Unfreeze()
		pass(tick)
		require.Equal(t, 1, repairs(m))
		require.Zero(t, fl.keys("a"))
		require.Zero(t, booked(l))
	})
}

// docs/dev/hazards.md H95: the repair's connection is dead, and the server executes the repair
// later.
func TestARepairOnADeadConnectionIsUndone(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.guarded(WithRepair())
		k := take(t, l, "a", 4*time.Second)
		m := fl.masters[2]
		m.Del("a")
		freezeAt(m, "repair+guard")
		require.NoError(t, k.Extend(bg, 4*time.Second))
		fl.answered()
		m.ForgetLog()
		for _, c := range m.Clients() {
			c.Drop()
		}
		require.NoError(t, k.Release(bg))
		pass(100 * time.Millisecond)
		m.Hook(nil)
		m.Unfreeze()
		pass(2 * time.Second)
		require.Zero(t, fl.keys("a"))
		require.Len(t, slices.DeleteFunc(m.Log(), func(e fakeredis.Entry) bool {
			return e.Name != "CLIENT" || e.Args[0] != "KILL"
		}), 1, "the old connection goes first")
	})
}

// freezeAt freezes a master when it receives a script, before the script executes.
func freezeAt(m *fakeredis.Master, script string) {
	m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
		for _, s := range command.Scripts() {
			if s.Name == script && cmd == "EVALSHA" && args[0] == s.Hash {
				m.Freeze()
			}
		}
		return "", false
	})
}

func TestDetachWaitsForARepairUnderWay(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.guarded(WithRepair()), "a", 4*time.Second)
		m := fl.masters[2]
		m.Del("a")
		freezeAt(m, "repair+guard")
		require.NoError(t, k.Extend(bg, 4*time.Second))
		fl.answered()
		claim, soon := detachedSoon(k)
		require.False(t, soon())
		m.Hook(nil)
		m.Unfreeze()
		require.True(t, soon(), "as soon as it is answered")
		require.NotEmpty(t, (<-claim).Token)
	})
}

func TestRepairsStopAtTheStopMarginAndAtTheEnd(t *testing.T) {
	for what, stop := range map[string]func(fl *testbed, l *Locker, k *Lock){
		"the stop margin": func(*testbed, *Locker, *Lock) {},
		"Close":           func(fl *testbed, l *Locker, _ *Lock) { fl.close(l) },
		"a release":       func(_ *testbed, _ *Locker, k *Lock) { _ = k.Release(bg) },
	} {
		inBubbles(t, 3, func(fl *testbed) {
			l := fl.guarded(WithRepair())
			k := take(t, l, "a", 4*time.Second, WithStopMargin(2*time.Second))
			m := fl.masters[2]
			m.Del("a")
			m.ForgetLog()
			m.Freeze() // the node's refusal arrives too late
			require.NoError(t, k.Extend(bg, 4*time.Second))
			stop(fl, l, k)
			pass(2*time.Second + tick)
			m.Unfreeze()
			pass(tick)
			require.Zero(t, repairs(m), what)
			_, ok := m.Get("a")
			require.False(t, ok)
		})
	}
}

// A command that waits for its connection is not sent after the validity, not even a moment later.
func TestARepairIsNotSentAfterTheValidity(t *testing.T) {
	late.LeaveOut(t, "it needs votes at an instant")
	for what, before := range map[string]time.Duration{"at the end": 0, "a moment before": -1} {
		t.Run(what, func(t *testing.T) {
			for range 10 { // the end of the lock may give up the repair before the node looks at its time
				forOneNameAndTwo(t, func(fl *testbed, names []string) {
					l, p := fl.probed(WithRestartGuard(guardTTL), WithRepair())
					k := takeAll(t, l, names, 4*time.Second)
					last := names[len(names)-1]
					fl.masters[2].Del(last)
					p.within(command.Repair, func() { fl.clock.Jump(worth(5*time.Second) + before) }) // nothing has taken time
					require.NoError(t, k.Extend(bg, 5*time.Second))
					fl.answered()
					require.Len(t, p.of(command.Repair), 1, "submitted, and")
					require.Equal(t, before < 0, repairs(fl.masters[2]) == 1)
					require.Equal(t, before < 0, fl.keys(last) == 3)
					if before < 0 {
						require.Equal(t, 4*time.Second, fl.masters[2].TTL(last))
					}
					pass(time.Second) // no timer fires any more
					require.Len(t, p.of(command.Repair), 1)
					_ = k.Release(bg)
					fl.releasedEverywhere(last)
				})
			}
		})
	}
}

// A repair that was not sent when the lock ends must not be sent later.
func TestARepairThatIsStillUnsentIsGivenUp(t *testing.T) {
	for what, end := range map[string]func(k *Lock){
		"a release": func(k *Lock) { _ = k.Release(bg) },
		"Detach":    func(k *Lock) { _, _ = k.Detach() },
	} {
		inBubbles(t, 3, func(fl *testbed) {
			nodes, l := fakes(t, 3, WithRestartGuard(guardTTL), WithRepair(), WithClock(fl.clock))
			k := take(t, l, "a", 4*time.Second)
			delete(nodes[2].held, "a")
			nodes[2].script = func(_ *fakeNode, c *command.Command) bool { return c.Op == command.Repair }
			require.NoError(t, k.Extend(bg, 5*time.Second))
			fl.answered()
			end(k)
			waiting := nodes[2].commands(command.Repair)
			require.Len(t, waiting, 1)
			require.False(t, waiting[0].MarkSent(), what)
			waiting[0].Fail(command.ErrGivenUp)
		})
	}
}

// A node that refused the acquire, and was repaired later, holds the lock's key.
func TestANodeThatRefusedAtFirstIsUndoneOnceItWasRepaired(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it refuses
		l := fl.guarded(WithRepair())
		m := fl.masters[2]
		m.Set("a", "somebody", 500*time.Millisecond)
		k := take(t, l, "a", 4*time.Second)
		pass(time.Second)
		require.NoError(t, k.Extend(bg, 4*time.Second))
		fl.heldEverywhere("a")
		require.NoError(t, k.Release(bg))
		fl.releasedEverywhere("a")
	})
}

func TestALockOutlivesTheRestartOfAllItsNodesWithRepairOnly(t *testing.T) {
	for _, repair := range []bool{true, false} {
		inBubbles(t, 3, func(fl *testbed) {
			opts := []Option{}
			if repair {
				opts = append(opts, WithRepair())
			}
			l := fl.guarded(opts...)
			k := take(t, l, "a", 3*time.Second, WithAutoExtend())
			restarted := 0
			for _, m := range fl.masters {
				require.NoError(t, m.Restart(false))
				restarted++
				pass(guardTTL + 5*time.Second)
				if k.Context().Err() != nil {
					break
				}
			}
			if !repair {
				require.Equal(t, 2, restarted, "lost at the second")
				require.ErrorIs(t, k.Release(bg), ErrLost)
				return
			}
			require.Equal(t, 3, restarted)
			require.Equal(t, 3, fl.keys("a"))
			require.NoError(t, k.Check(bg))
			require.NoError(t, k.Release(bg))
		})
	}
}
