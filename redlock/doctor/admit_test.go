package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/redlock"
)

// admitTTL is longer than the TTL of the locks that the test helpers acquire.
const admitTTL = 2 * time.Minute

func TestNodesThatWereAdmittedVoteAtOnce(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, other := fl.locker(redlock.WithRestartGuard(admitTTL)), fl.locker(redlock.WithRestartGuard(admitTTL))
		fl.masters[0].Set("redlock:fence:x", "7", time.Hour)
		fl.masters[0].Set("data", "for ever", 0)
		r, err := Admit(bg, l)
		require.NoError(t, err)
		for _, n := range r.Nodes {
			require.Equal(t, examine.StateOK, n.Guard)
		}
		require.False(t, r.Failed())
		require.NotContains(t, grades(r), "note guard")
		require.Equal(t, []string{"ok", "ok", "ok"}, fl.markers())
		require.Zero(t, elapsed(func() { require.NoError(t, releasedAtOnce(other)) }))
		require.Zero(t, elapsed(func() { require.NoError(t, releasedAtOnce(l)) }))

		require.NoError(t, fl.masters[0].Restart(true))
		require.NoError(t, fl.masters[1].Restart(false))
		time.Sleep(time.Second)
		require.ErrorIs(t, tried(l), redlock.ErrQuarantined, "it spared one wait, and no other")
	})
}

// docs/dev/hazards.md H101: each condition of an admission is broken once.
func TestEachReasonNotToAdmitIsReportedWithItsNodeAndTheCure(t *testing.T) {
	guarded := func(*testbed) []redlock.Option { return []redlock.Option{redlock.WithRestartGuard(admitTTL)} }
	for what, c := range map[string]struct {
		breaks func(fl *testbed)
		words  []string
	}{
		"a node that does not answer": {
			func(fl *testbed) { fl.masters[1].Stop() },
			[]string{"n2 did not answer, so no node is admitted", "retry"},
		},
		"a replica": {
			func(fl *testbed) { fl.masters[1].SetInfo("role", "slave") },
			[]string{"n2 is not fit to vote", "first fix the finding replica"},
		},
		"rights that are missing": {
			func(fl *testbed) { fl.masters[1].Deny("PEXPIRE") },
			[]string{"n2 is not fit to vote", "first fix the finding rights"},
		},
		"a quarantine": {
			func(fl *testbed) { require.ErrorIs(fl.t, tried(fl.locker(guarded(fl)...)), redlock.ErrQuarantined) },
			[]string{"is already quarantined", "never shortened", "votes after 2m0s"},
		},
		"a node that restarted empty beside others that are marked": {
			func(fl *testbed) {
				_, err := Admit(bg, fl.locker(guarded(fl)...))
				require.NoError(fl.t, err)
				require.NoError(fl.t, fl.masters[1].Restart(false))
			},
			[]string{"n1 already has a marker (ok)", "n3 already has", "may have forgotten locks"},
		},
		"nodes that all restarted with what they had": {
			func(fl *testbed) {
				_, err := Admit(bg, fl.locker(guarded(fl)...))
				require.NoError(fl.t, err)
				fl.each(func(m *fakeredis.Master) { require.NoError(fl.t, m.Restart(true)) })
			},
			[]string{"n1 already has a marker (outdated)"},
		},
		"other clients": {
			func(fl *testbed) {
				_, err := Admit(bg, fl.locker(redlock.WithRestartGuard(2*admitTTL)))
				require.NoError(fl.t, err)
			},
			[]string{"n1 has a foreign or unreadable marker"},
		},
		"a marker that is none": {
			func(fl *testbed) { fl.masters[2].PushList(guard.Key) },
			[]string{"n3 has a foreign or unreadable marker"},
		},
		"a lock": {
			func(fl *testbed) { fl.masters[2].Set("job/1", "A", 3*time.Second) },
			[]string{"n3 has a key that may be a lock (\"job/1\", for ", "stop all clients"},
		},
		"keys that can't be listed": {
			func(fl *testbed) { fl.masters[2].Deny("SCAN") },
			[]string{"n3 cannot be scanned for locks (NOPERM", "+scan +pttl"},
		},
		"keys whose age can't be read": {
			func(fl *testbed) {
				fl.masters[2].Set("x", "A", 3*time.Second)
				fl.masters[2].FailWith("PTTL", "NOPERM No permissions to access a key")
			},
			[]string{"n3 cannot be scanned for locks (NOPERM", "~*"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				c.breaks(fl)
				synctest.Wait()
				before := fl.markers()
				r, err := Admit(bg, fl.locker(guarded(fl)...))
				matches(t, err, ErrNotAdmitted)
				for _, w := range c.words {
					require.ErrorContains(t, err, w)
				}
				require.True(t, r.Failed())
				require.Contains(t, grades(r), "error admission")
				require.Equal(t, before, fl.markers(), "no node was admitted, and no quarantine ended")
			})
		})
	}
}

func TestOneServerUnderTwoNamesIsNotAdmitted(t *testing.T) {
	for _, exception := range [][]redlock.Option{nil, {redlock.WithUnsafeNodes("a")}} { // the exception names another node
		inBubble(t, 2, func(fl *testbed) {
			_, err := Admit(bg, fl.twice(append(exception, redlock.WithRestartGuard(admitTTL))...))
			matches(t, err, ErrNotAdmitted)
			require.ErrorContains(t, err, "b and c are the same server")
			require.Equal(t, []string{"", ""}, fl.markers())
		})
	}
}

func TestAdmitNeedsTheGuardAndAnOpenLocker(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		_, err := Admit(bg, fl.locker())
		matches(t, err, redlock.ErrInvalid)
		l := fl.locker(redlock.WithRestartGuard(admitTTL))
		ctx, cancel := context.WithCancel(bg)
		cancel()
		_, err = Admit(ctx, l)
		matches(t, err, context.Canceled)
		end(l)
		_, err = Admit(bg, l)
		matches(t, err, redlock.ErrClosed)
		require.Equal(t, []string{"", "", ""}, fl.markers())
	})
}

// docs/dev/hazards.md H101: another client contacts the nodes for the first time while their keys
// are scanned. Its quarantine remains.
func TestAQuarantineThatBeginsDuringAnAdmissionRemains(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, other := fl.locker(redlock.WithRestartGuard(admitTTL)), fl.locker(redlock.WithRestartGuard(admitTTL))
		met := false
		fl.masters[1].Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd == "SCAN" && !met {
				met = true
				time.Sleep(time.Second) // until the others were scanned
				go func() {
					for range 3 { // an attempt ends when two nodes have refused
						_ = tried(other)
					}
				}()
				time.Sleep(time.Second)
			}
			return "", false
		})
		r, err := Admit(bg, l)
		matches(t, err, ErrNotAdmitted)
		require.True(t, met)
		for _, n := range []string{"n1", "n2", "n3"} {
			require.ErrorContains(t, err, n+" was contacted by a client meanwhile and is quarantined")
		}
		require.Equal(t, []string{"q", "q", "q"}, fl.markers())
		require.True(t, r.Failed())
		require.ErrorIs(t, tried(l), redlock.ErrQuarantined)
		time.Sleep(admitTTL)
		require.NoError(t, releasedAtOnce(l))
	})
}

func TestTwoAdmissionsAtOnceBothAdmit(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, other := fl.locker(redlock.WithRestartGuard(admitTTL)), fl.locker(redlock.WithRestartGuard(admitTTL))
		fl.each(func(m *fakeredis.Master) { m.SetDelay(10 * time.Millisecond) }) // they go step by step
		second := make(chan error)
		go func() {
			_, err := Admit(bg, other)
			second <- err
		}()
		r, err := Admit(bg, l)
		require.NoError(t, err)
		require.NoError(t, <-second)
		require.Equal(t, examine.StateOK, r.Nodes[0].Guard)
		require.Equal(t, []string{"ok", "ok", "ok"}, fl.markers())
	})
}

// An admission command that executes late admits nothing: neither another run nor a node that was
// emptied since.
func TestAnAdmissionThatComesLateAdmitsNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(redlock.WithRestartGuard(admitTTL))
		var late *fakeredis.Client
		fl.masters[2].Hook(func(client int64, cmd string, args []string) (string, bool) {
			if cmd == "EVALSHA" && len(args) > 2 && late == nil { // a probe has no keys
				late = fl.masters[2].Client(client)
				late.HoldRequests()
			}
			return "", false
		})
		_, err := Admit(bg, l)
		matches(t, err, ErrNotAdmitted)
		require.ErrorContains(t, err, "n3 did not confirm its admission in time")
		require.Equal(t, []string{"ok", "ok", ""}, fl.markers())
		other := fl.locker(redlock.WithRestartGuard(admitTTL))
		require.NoError(t, releasedAtOnce(other), "two are enough")
		end(other)
		synctest.Wait() // every command that it was sent by then has executed
		fl.masters[2].FlushAll()
		time.Sleep(maxAdmitTime + time.Second)
		late.Release()
		synctest.Wait()
		require.Equal(t, []string{"ok", "ok", ""}, fl.markers())
	})
}

func TestANodeThatIsRestartedDuringAnAdmissionIsNotAdmitted(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(redlock.WithRestartGuard(admitTTL))
		fl.masters[1].Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd == "SCAN" {
				time.Sleep(time.Second) // until the others were scanned
				require.NoError(t, fl.masters[2].Restart(false))
				time.Sleep(time.Second)
			}
			return "", false
		})
		_, err := Admit(bg, l)
		matches(t, err, ErrNotAdmitted)
		require.ErrorContains(t, err, "n3 was not admitted")
		require.ErrorContains(t, err, "not the server that was looked at, or not its run")
		require.Equal(t, []string{"ok", "ok", ""}, fl.markers())
	})
}

func TestAnAdmissionEndsWithItsContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(redlock.WithRestartGuard(admitTTL))
		fl.masters[1].Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			return "*2\r\n$1\r\n7\r\n*0", cmd == "SCAN" // there is always more
		})
		fl.masters[1].SetDelay(30 * time.Millisecond)
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		require.Equal(t, time.Minute, elapsed(func() {
			_, err := Admit(ctx, l)
			matches(t, err, context.DeadlineExceeded)
		}))
		require.Equal(t, []string{"", "", ""}, fl.markers())
		synctest.Wait()
		require.Equal(t, 1, fl.masters[1].Connections(), "nobody looks any more")

		fl.masters[1].Hook(nil)
		fl.masters[2].Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd == "SCAN" {
				fl.masters[2].Freeze()
			}
			return "", false
		})
		_, err := Admit(bg, l)
		matches(t, err, ErrNotAdmitted)
		require.ErrorContains(t, err, "n3 did not answer")
		fl.masters[2].Unfreeze()
	})
}

// A scan has several pages, and all of them are read.
func TestAnAdmissionScansAllKeys(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		for i := range 1200 {
			fl.masters[0].Set(strings.Repeat("k", i+1), "v", 0)
		}
		fl.masters[0].Set("z", "lock", time.Second)
		l := fl.locker(redlock.WithRestartGuard(admitTTL))
		_, err := Admit(bg, l)
		require.ErrorContains(t, err, `n1 has a key that may be a lock ("z", for 1s more)`)
		time.Sleep(time.Second)
		_, err = Admit(bg, l)
		require.NoError(t, err)
	})
}

func TestAdmitHasAnErrorOfOneLine(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancelCause(bg)
		cancel(errors.New("one\ntwo"))
		_, err := Admit(ctx, fl.locker(redlock.WithRestartGuard(admitTTL)))
		require.EqualError(t, err, "redlock: admit: one; two")
	})
}

func TestTheNameOfAKeyThatAnAdmissionFindsIsPrintable(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.Set(planted, "x", time.Hour) })
		report, err := Admit(bg, fl.locker(redlock.WithRestartGuard(admitTTL)))
		require.ErrorIs(t, err, ErrNotAdmitted)
		require.ErrorContains(t, err, "zzz")
		requireShowable(t, err, report)
	})
}
