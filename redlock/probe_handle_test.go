package redlock

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// margins returns how much shorter the validity is than the TTL: 1 % and 2 ms of drift, and 5 ms
// for late timers.
func margins(ttl time.Duration) time.Duration { return ttl/100 + 7*time.Millisecond }

// docs/dev/hazards.md H113: however a lock ends, its context and the contexts of all its shares
// have ended when the first undo is submitted.
func TestNothingIsUndoneBeforeAllContextsHaveEnded(t *testing.T) {
	forget := func(fl *testbed) {
		for _, m := range fl.masters[:2] {
			m.Del("a")
		}
	}
	for what, test := range map[string]struct {
		end   func(fl *testbed, l *Locker, k *Lock) error
		cause error
	}{
		"a release": {func(_ *testbed, _ *Locker, k *Lock) error { return k.Release(bg) }, ErrReleased},
		"a release of one that Close told": {func(fl *testbed, l *Locker, k *Lock) error {
			ctx, cancel := context.WithTimeout(bg, 4*time.Second)
			defer cancel()
			closed := begunClose(ctx, l)
			<-k.Context().Done()
			require.ErrorIs(fl.t, context.Cause(k.Context()), ErrClosed)
			require.NoError(fl.t, k.Release(bg))
			return <-closed
		}, ErrClosed},
		"Check": {func(fl *testbed, _ *Locker, k *Lock) error {
			forget(fl)
			require.ErrorIs(fl.t, k.Check(bg), ErrLost)
			return nil
		}, ErrLost},
		"Extend": {func(fl *testbed, _ *Locker, k *Lock) error {
			forget(fl)
			require.ErrorIs(fl.t, k.Extend(bg, time.Second), ErrLost)
			return nil
		}, ErrLost},
		"a caller that looks at the clock": {func(fl *testbed, _ *Locker, k *Lock) error {
			fl.clock.Jump(5 * time.Second)
			require.ErrorIs(fl.t, k.Extend(bg, time.Second), ErrMaxHold)
			return nil
		}, ErrMaxHold},
		"its maximum hold": {func(*testbed, *Locker, *Lock) error { pass(5 * time.Second); return nil }, ErrMaxHold},
	} {
		t.Run(what, func(t *testing.T) {
			forOneNameAndTwo(t, func(fl *testbed, names []string) {
				fl.lateAt(2) // the others disown it
				l, p := fl.probed()
				k := takeAll(t, l, names, 10*time.Second, WithMaxHold(5*time.Second))
				s := shared(t, k)
				inner := shared(t, s)
				p.watch(k, s, inner)
				for _, h := range []*Lock{k, s, inner} {
					bound, release := h.Bind(bg)
					defer release()
					child, stop := context.WithCancel(bound)
					defer stop()
					p.watched = append(p.watched, child)
				}
				p.take(command.Release, time.Millisecond)
				require.NoError(t, test.end(fl, l, k))
				fl.answered()
				undone := p.of(command.Release)
				require.Len(t, undone, 3)
				for _, u := range undone {
					require.Zero(t, u.open, "of the contexts of the lock and its shares, and of those bound to them")
				}
				for _, h := range []*Lock{k, s, inner} {
					require.ErrorIs(t, context.Cause(h.Context()), test.cause)
				}
				require.Zero(t, fl.keys(names[len(names)-1]))
			})
		})
	}
}

// docs/dev/hazards.md H5 and H12: the time that submissions take is not part of the validity. A
// command that would be sent after the old validity is not sent.
func TestAnExtensionCountsFromBeforeItsFirstSubmission(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed()
		k := takeAll(t, l, names, 10*time.Second)
		p.take(command.Extend, 10*time.Millisecond)
		began := l.now()
		require.NoError(t, k.Extend(bg, 20*time.Second))
		require.Equal(t, began.Add(20*time.Second-margins(20*time.Second)), l.now().Add(k.Remaining()))
		require.NoError(t, k.Release(bg))
	})
}

// The node would otherwise execute an extension behind the release, or the extension would be given up although
// its caller was told that it was sent.
func TestTheReleaseFollowsAnExtensionThatIsBeingSubmitted(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed()
		k := takeAll(t, l, names, 10*time.Second)
		released := make(chan error, 1)
		p.within(command.Extend, sync.OnceFunc(func() {
			go func() { released <- k.Release(bg) }()
			for range 1000 {
				runtime.Gosched() // until it waits
			}
		}))
		_ = k.Extend(bg, 10*time.Second)
		require.NoError(t, <-released)
		fl.answered()
		var order []command.Op
		for _, s := range p.log {
			if s.op == command.Extend || s.op == command.Release {
				order = append(order, s.op)
			}
		}
		x, r := command.Extend, command.Release
		require.Equal(t, []command.Op{x, x, x, r, r, r}, order)
	})
}

func TestAnExtensionWhoseSubmissionTakesTooLongIsNotSent(t *testing.T) {
	for what, opts := range map[string][]LockOption{"by a caller": nil, "by itself": {WithAutoExtend()}} {
		t.Run(what, func(t *testing.T) {
			forOneNameAndTwo(t, func(fl *testbed, names []string) {
				l, p := fl.probed()
				k := takeAll(t, l, names, 10*time.Second, opts...)
				work := k.Context()
				p.within(command.Extend, sync.OnceFunc(func() { fl.clock.Jump(10 * time.Second) }))
				if opts == nil {
					require.ErrorIs(t, k.Extend(bg, 20*time.Second), ErrLost)
				} else {
					pass(4 * time.Second)
				}
				fl.answered()
				require.Len(t, p.of(command.Extend), 3, "submitted, and")
				require.Zero(t, fl.sees("extend"), "not sent")
				require.ErrorIs(t, work.Err(), context.Canceled)
				require.ErrorIs(t, context.Cause(work), ErrLost)
				require.LessOrEqual(t, k.Remaining(), time.Duration(0))
				require.ErrorIs(t, k.Release(bg), ErrLost)
			})
		})
	}
}

// docs/dev/rules.md rule 9: a repair gives a node back what it lost, and changes no other key.
func TestARepairTouchesNoKeyThatExists(t *testing.T) {
	others := map[string]func(m *fakeredis.Master, key string){
		"another's": func(m *fakeredis.Master, key string) { m.Set(key, "another", time.Minute) },
		"no lock":   func(m *fakeredis.Master, key string) { m.PushList(key) },
	}
	for what, take := range others {
		for _, fencing := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				forOneNameAndTwo(t, func(fl *testbed, names []string) {
					opts := []Option{WithRepair()}
					if fencing {
						opts = append(opts, WithFencing())
					}
					l := fl.guarded(opts...)
					k := takeAll(t, l, names, 4*time.Second)
					m := fl.masters[2]
					for _, name := range names {
						m.Del(name)
					}
					last := names[len(names)-1]
					ends := time.Now().Add(time.Minute)
					take(m, last)
					require.NoError(t, k.Extend(bg, 4*time.Second))
					fl.answered()
					require.Equal(t, 1, repairs(m), "it was tried")
					if v, ok := m.Get(last); ok {
						require.Equal(t, "another", v)
						require.Equal(t, time.Until(ends), m.TTL(last))
					}
					require.Equal(t, []string{last}, keysOn(m, names))
					require.NoError(t, k.Release(bg))
					fl.answered()
					require.Equal(t, []string{last}, keysOn(m, names))
				})
			})
		}
	}
}

// standing lists those of the names whose keys a master has.
func keysOn(m *fakeredis.Master, names []string) (some []string) {
	for _, key := range m.Keys() {
		for _, name := range names {
			if key == name {
				some = append(some, name)
			}
		}
	}
	return some
}

// One of two names has lost its key. The other's key keeps its TTL.
func TestARepairMakesOnlyTheKeysThatAreGone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.guarded(WithRepair())
		k := takeAll(t, l, []string{"a", "b"}, 2*time.Second)
		began := time.Now()
		require.NoError(t, k.Extend(bg, 8*time.Second))
		fl.answered()
		m := fl.masters[2]
		m.Del("b")
		require.NoError(t, k.Extend(bg, 8*time.Second))
		fl.answered()
		requireTTL(t, m, "a", 8*time.Second, began)
		requireTTL(t, m, "b", 2*time.Second, began)
		v, _ := m.Get("b")
		require.Equal(t, k.Token(), v)
		require.NoError(t, k.Release(bg))
	})
}

// docs/dev/hazards.md H52: a lock on several names ends with the first of its keys that expires,
// whichever that is.
func TestCheckAndResumeBelieveTheShortestKey(t *testing.T) {
	names := []string{"a", "b", "c"}
	for i, short := range names {
		t.Run(short, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l, p := fl.probed()
				k := takeAll(t, l, names, 20*time.Second)
				for _, m := range fl.masters[:2] {
					m.Set(names[(i+1)%3], k.Token(), 15*time.Second)
					m.Set(short, k.Token(), 5*time.Second)
				}
				p.take(command.Inspect, 10*time.Millisecond)
				end := l.now().Add(5*time.Second - margins(5*time.Second) - time.Millisecond)
				require.NoError(t, k.Check(bg))
				require.Equal(t, end, l.now().Add(k.Remaining()), "less a millisecond, and from before the first submission")
				fl.answered()

				claim, err := k.Detach()
				require.NoError(t, err)
				fl.masters[1].Set(short, k.Token(), 2*time.Second)
				fl.masters[2].Set(short, k.Token(), 2*time.Second)
				end = l.now().Add(2*time.Second - margins(2*time.Second) - time.Millisecond)
				k, err = l.Resume(bg, claim)
				require.NoError(t, err)
				require.Equal(t, end, l.now().Add(k.Remaining()))
				require.NoError(t, k.Release(bg))
			})
		})
	}
}

// If one key of several is missing or another's, the lock is lost, whichever key that is.
func TestCheckAndResumeFindThatOneKeyOfSeveralIsLost(t *testing.T) {
	names := []string{"a", "b", "c"}
	for _, lost := range names {
		for _, to := range []string{"", "another"} {
			t.Run(lost+" "+to, func(t *testing.T) {
				inBubble(t, 3, func(fl *testbed) {
					l := fl.locker()
					spoil := func() {
						for _, m := range fl.masters[:2] {
							m.Del(lost)
							if to != "" {
								m.Set(lost, to, time.Minute)
							}
						}
					}
					k := takeAll(t, l, names, 20*time.Second)
					claim, err := k.Detach()
					require.NoError(t, err)
					spoil()
					_, err = l.Resume(bg, claim)
					require.ErrorIs(t, err, ErrLost)

					fl.each(func(m *fakeredis.Master) { m.FlushAll() })
					k = takeAll(t, l, names, 20*time.Second)
					spoil()
					require.ErrorIs(t, k.Check(bg), ErrLost)
					require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
				})
			})
		}
	}
}

// docs/dev/hazards.md H12, H94: a confirmation that would be sent after the attempt's validity is
// not sent.
func TestAConfirmationWhoseSubmissionTakesTooLongIsNotSent(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed(WithFencing())
		fl.apart()
		p.take(command.Confirm, 10*time.Second)
		_, err := l.TryAcquireAll(bg, names, 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		fl.answered()
		require.NotEmpty(t, p.of(command.Confirm))
		require.Zero(t, fl.sees("confirm"))
		for _, name := range names {
			require.Zero(t, fl.keys(name))
		}
	})
}

// docs/dev/rules.md rule 5: an undo is never too late to be sent, because its acquire may be as
// late.
func TestAnUndoIsSentHoweverLongItsSubmissionTakes(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed()
		k := takeAll(t, l, names, 10*time.Second)
		p.take(command.Release, 10*time.Second)
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Equal(t, 3, fl.sees("release"))
	})
}
