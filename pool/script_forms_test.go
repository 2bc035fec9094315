package pool

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// form is a script with or without a fence and the restart guard: each is a text of its own.
type form struct{ fenced, guarded bool }

func (f form) String() string { return fmt.Sprintf("fenced %v, guarded %v", f.fenced, f.guarded) }

// eachForm runs f for each form, with a master that a guarded Locker has admitted. with makes a call in
// this form for the token A.
func eachForm(t *testing.T, f func(t *testing.T, m *fakeredis.Master, n *Node, of form, with func(fill formFiller, keys ...string) *call)) {
	t.Helper()
	for _, of := range []form{{}, {fenced: true}, {guarded: true}, {fenced: true, guarded: true}} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			admitted(t, m, n)
			f(t, m, n, of, func(fill formFiller, keys ...string) *call {
				args := terms("A", keys)
				args.UnderGuard = of.guarded
				fence := int64(0)
				if of.fenced {
					args.SetCounters(false)
					fence = 7
				}
				c := newCall(func(r *command.Request) { fill(r, args, fence) })
				return c
			})
		})
	}
}

func has(m *fakeredis.Master, key string) bool {
	_, ok := m.Get(key)
	return ok
}

// formFiller fills in a request. fence is 0 in a form without a fence.
type formFiller func(r *command.Request, args *command.LockArgs, fence int64)

func acquireFor(ttl time.Duration) formFiller {
	return func(r *command.Request, args *command.LockArgs, fence int64) {
		if fence == 0 {
			command.NewAcquire(r, args, ttl, guardTTL)
			return
		}
		command.NewFencedAcquire(r, args, ttl, guardTTL, 1, time.Hour)
	}
}

func extendFor(ttl time.Duration) formFiller {
	return func(r *command.Request, args *command.LockArgs, fence int64) {
		command.NewExtend(r, args, ttl, guardTTL, fence)
	}
}

func repairFor(ttl time.Duration) formFiller {
	return func(r *command.Request, args *command.LockArgs, fence int64) {
		command.NewRepair(r, args, ttl, guardTTL, fence)
	}
}

func shortenFor(ttl time.Duration) formFiller {
	return func(r *command.Request, args *command.LockArgs, _ int64) { command.NewShorten(r, args, ttl, guardTTL) }
}

func confirmed(r *command.Request, args *command.LockArgs, fence int64) {
	command.NewConfirm(r, args, fence)
}

// docs/dev/hazards.md H22, H23, in every script that sets a TTL: with zero Redis deletes the key, and
// one of 9e18 would make a lock that never ends.
func TestEveryFormOfAScriptChecksTheTTL(t *testing.T) {
	eachForm(t, func(t *testing.T, m *fakeredis.Master, n *Node, of form, with func(formFiller, ...string) *call) {
		for _, ttl := range []time.Duration{0, 9 * time.Millisecond, guardTTL + time.Millisecond} {
			m.Set("k", "A", time.Second)
			m.Set("l", "A", time.Second)
			calls := map[string]*call{
				"acquire": with(acquireFor(ttl), "x", "y"),
				"extend":  with(extendFor(ttl), "k", "l"),
				"shorten": with(shortenFor(ttl), "k", "l"),
			}
			if of.guarded { // there is no other repair
				calls["repair"] = with(repairFor(ttl), "x", "y")
			}
			if of.fenced || of.guarded {
				calls["acquire of one name"] = with(acquireFor(ttl), "x")
			}
			for what, c := range calls {
				r := c.On(n).Reply(t)
				require.Equal(t, command.Failed, r.Outcome, "%s for %v, %v", what, ttl, of)
				require.ErrorContains(t, r.Err, "TTL out of bounds")
			}
			for _, key := range []string{"x", "y"} {
				require.False(t, has(m, key))
			}
			require.Equal(t, time.Second, m.TTL("k"))
			require.Equal(t, time.Second, m.TTL("l"))
		}
	})
}

// A key of another token, or none, under one of the names: nothing is changed under the others either.
func TestEveryFormOfAScriptChangesAllKeysOrNone(t *testing.T) {
	for missing := range 3 {
		for _, value := range []string{"", "B"} {
			eachForm(t, func(t *testing.T, m *fakeredis.Master, n *Node, of form, with func(formFiller, ...string) *call) {
				keys := []string{"k", "l", "m"}
				calls := map[string]*call{"extend": with(extendFor(time.Minute/6), keys...)}
				if of.fenced {
					calls["confirm"] = with(confirmed, keys...)
				}
				if of.guarded && value != "" {
					calls["repair"] = with(repairFor(time.Minute/6), keys...)
				}
				for what, c := range calls {
					for i, key := range keys {
						switch {
						case i != missing:
							m.Set(key, "A", time.Second)
						case value != "":
							m.Set(key, value, time.Second)
						default:
							m.Del(key)
						}
					}
					require.Equal(t, command.Refused, c.Outcome(t, n), "%s, %v", what, of)
					for i, key := range keys {
						if i != missing || value != "" {
							require.Equal(t, time.Second, m.TTL(key), "%s of %s, %v", what, key, of)
						}
						require.False(t, has(m, command.FenceKey(key, false)), "%s of %s, %v", what, key, of)
					}
				}
			})
		}
	}
}

// docs/dev/rules.md rule 16: a node that has lost its marker may have forgotten other locks. What
// creates a key creates none there. What changes keys of ours does, but is no vote.
func TestEveryFormOfAScriptChecksTheMarker(t *testing.T) {
	eachForm(t, func(t *testing.T, m *fakeredis.Master, n *Node, of form, with func(formFiller, ...string) *call) {
		if !of.guarded {
			return
		}
		m.Del(guard.Key)
		for what, c := range map[string]*call{
			"acquire":                 with(acquireFor(time.Second), "x"),
			"acquire of several keys": with(acquireFor(time.Second), "x", "y"),
			"repair":                  with(repairFor(time.Second), "x"),
			"repair of several keys":  with(repairFor(time.Second), "x", "y"),
		} {
			require.NotEqual(t, command.Granted, c.Outcome(t, n), "%s, %v", what, of)
			require.False(t, has(m, "x") || has(m, "y"), "%s, %v", what, of)
		}
		m.Set("k", "A", time.Second)
		calls := map[string]*call{"extend": with(extendFor(guardTTL), "k")}
		if of.fenced {
			calls["confirm"] = with(confirmed, "k")
		}
		for what, c := range calls {
			require.NotEqual(t, command.Granted, c.Outcome(t, n), "%s, %v", what, of)
		}
		require.Equal(t, guardTTL, m.TTL("k"), "the lock was extended, in case that others hold it")
	})
}
