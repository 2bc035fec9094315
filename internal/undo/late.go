package undo

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Late is the acquires that were written on a connection that ended before they were
// answered. The server may execute them at any time later, also after an undo that is sent on
// another connection (docs/dev/hazards.md H95: seen in 20 of 40 rounds). So the next connection
// first ends the old one on the server. If that is impossible, acquires are swept once
// their undos were answered: one call deletes what many of them have made since, again and again,
// until their keys have expired.
//
// Late is told what happens. Its owner guards it, but for Some. The zero value knows of no acquire.
type Late struct {
	conns  map[Conn]struct{}
	tokens map[string]*acquire
	some   atomic.Bool // there are tokens

	undone []*acquire    // are swept; the last ones were swept last
	due    clock.Instant // of the next sweep; 0 before the first
}

// acquire is what is known of one of them.
type acquire struct {
	token  string
	keys   []string
	ttl    time.Duration
	until  clock.Instant // when all that it can make has expired; noDeadline until there is a connection
	from   clock.Instant // not swept before: the end of a minimum hold
	undone bool
}

// noDeadline is later than any instant of a clock.
const noDeadline = clock.Instant(1<<63 - 1)

// Conn identifies a connection on the server: by its client ID within one run of the server.
type Conn struct {
	ClientID int64
	RunID    string
}

// MaxLate bounds the acquires that are remembered, and MaxConns the connections. MaxSwept
// bounds the keys of one sweep, which a server executes in about a millisecond. Only a lock with more
// names has a sweep with more.
const (
	MaxLate  = 8000
	MaxConns = 100
	MaxSwept = 1000
)

// Sweeps are SweepPause apart: with the health checks, a connection carries
// less than two commands a second. So all of MaxLate acquires are swept within SweepRound. Where a sweep may
// have the keys of one lock only (a Cluster, a proxy), it takes SweepPause for each name if that is longer.
const (
	SweepPause = 600 * time.Millisecond
	SweepRound = 5 * time.Second
)

// Some reports whether there are acquires that may be executed late. It may be called at any time.
func (l *Late) Some() bool { return l.some.Load() }

// Lost is told an acquire that was unanswered when its connection ended. It reports false if there
// is no room for it. The connection is ended on the server all the same.
func (l *Late) Lost(c *command.Command, on Conn) (kept bool) {
	if l.tokens == nil {
		l.tokens, l.conns = make(map[string]*acquire), make(map[Conn]struct{})
	}
	if _, known := l.conns[on]; !known && len(l.conns) >= MaxConns-1 {
		on = Conn{} // one of many that can't be ended
	}
	l.conns[on] = struct{}{}
	if len(l.tokens) >= MaxLate {
		return false
	}
	l.some.Store(true)
	l.tokens[c.Token()] = &acquire{token: c.Token(), keys: slices.Clone(c.Keys), ttl: c.TTL, until: noDeadline}
	return true
}

// Prune forgets acquires whose keys have expired. It goes through all of them, and so is called
// once for each ended connection, and not for each acquire: there may be thousands.
func (l *Late) Prune(now clock.Instant) {
	expired := func(a *acquire) bool { return !now.Before(a.until) }
	maps.DeleteFunc(l.tokens, func(_ string, a *acquire) bool { return expired(a) })
	l.undone = slices.DeleteFunc(l.undone, expired)
	// The connections matter only as long as one of their acquires does.
	if len(l.tokens) == 0 {
		l.Clear()
	}
}

// ToEnd returns the connections to a run of the server that have to be ended on it before it gets commands, and those that can't be:
// the client ID may be another connection's by now. Those to another run ended with it. If the run is unknown, "", none can be.
func (l *Late) ToEnd(runID string) (end, left []Conn) {
	for c := range l.conns {
		switch {
		case c.ClientID == 0 || c.RunID == "" || runID == "":
			left = append(left, c)
		case c.RunID == runID:
			end = append(end, c)
		}
	}
	return end, left
}

// Connected is told that a connection begins, and which earlier ones could not be ended. If there are none, the server will never
// execute what it has not executed by now. Otherwise it may do so until twice the TTL from now.
func (l *Late) Connected(left []Conn, now clock.Instant) {
	if l.conns == nil {
		return // nothing was lost, or Clear came since ToEnd: the server is closed or retired
	}
	clear(l.conns)
	for _, c := range left {
		l.conns[c] = struct{}{}
	}
	for _, a := range l.tokens {
		// Only where no end is set yet: a later connection must not postpone it.
		if a.until == noDeadline {
			a.until = now.Add(2 * a.ttl)
		}
	}
	if len(left) == 0 {
		l.settle(now)
	}
}

// settle is for acquires that the server will not execute any more. What they made since the last
// sweep is still to be swept.
func (l *Late) settle(now clock.Instant) {
	round := max(SweepRound, SweepPause*time.Duration(len(l.undone)))
	for token, a := range l.tokens {
		if !a.undone {
			delete(l.tokens, token)
		}
		a.until = min(a.until, max(now, a.from).Add(2*round))
	}
	l.Prune(now)
}

// Undone is told that an undo was answered, or is too late for its owner. If its acquire may
// still be executed, sweeps begin.
func (l *Late) Undone(undo *command.Command, now clock.Instant) {
	a := l.tokens[undo.Token()]
	if a == nil || a.undone {
		return
	}
	if undo.Op == command.Shorten {
		a.from = now.Add(undo.TTL)
	}
	a.undone = true
	l.undone = append(l.undone, a)
	if at := now.Add(SweepPause); l.due == 0 || at.Before(l.due) {
		l.due = at
	}
}

// Due returns when the next sweep is due; 0: never.
func (l *Late) Due() clock.Instant {
	if len(l.undone) == 0 {
		return 0
	}
	return l.due
}

// Wait puts the next sweep off.
func (l *Late) Wait(until clock.Instant) { l.due = until }

// Sweep returns a sweep of acquires, those first that were swept longest ago, and forgets those
// whose keys have expired; nil: none is left. Unless several is true, all have the same first key.
func (l *Late) Sweep(now clock.Instant, several bool) *command.Command {
	var batch, others []*acquire
	keys := 0
	for _, a := range l.undone {
		switch {
		case !now.Before(a.until):
			delete(l.tokens, a.token)
		case !now.Before(a.from) && (len(batch) == 0 || keys+len(a.keys) <= MaxSwept && (several || a.keys[0] == batch[0].keys[0])):
			batch, keys = append(batch, a), keys+len(a.keys)
		default:
			others = append(others, a)
		}
	}
	l.undone = slices.Concat(others, batch)
	return sweepOf(batch)
}

// SweepEach returns a sweep of each acquire that is undone, but for those whose minimum hold is not over: their keys
// expire.
func (l *Late) SweepEach(now clock.Instant) (all []*command.Command) {
	for _, a := range l.undone {
		if !now.Before(a.from) {
			all = append(all, sweepOf([]*acquire{a}))
		}
	}
	return all
}

// sweepOf returns one sweep of all these acquires; nil if there are none.
func sweepOf(batch []*acquire) *command.Command {
	if len(batch) == 0 {
		return nil
	}
	var keys, tokens []string
	for _, a := range batch {
		for _, key := range a.keys {
			keys, tokens = append(keys, key), append(tokens, a.token)
		}
	}
	r := &command.Request{}
	command.NewSweep(r, keys, tokens)
	return &command.Command{Request: r}
}

// Clear drops everything: the server is another one now, or the node is closed.
func (l *Late) Clear() {
	l.conns, l.tokens, l.undone, l.due = nil, nil, nil, 0
	l.some.Store(false)
}
