package main

import (
	"fmt"
	"sync"
	"time"
)

// ledger is what the name protects. Its zero value is empty; it is safe for concurrent use.
type ledger struct {
	mu     sync.Mutex // guards what follows
	inside map[string]time.Time
	turns  int
}

// enter writes down that who is inside by a lock that is valid for so long still. It is an error when another is, whose own lock is
// valid still: one that has run out excludes nobody, and its holder knows.
func (l *ledger) enter(who string, valid time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for other, until := range l.inside {
		if until.After(now) {
			return fmt.Errorf("%s and %s are inside at once", who, other)
		}
	}
	if l.inside == nil {
		l.inside = make(map[string]time.Time)
	}
	l.inside[who] = now.Add(valid)
	l.turns++
	return nil
}

func (l *ledger) leave(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inside, who)
}

func (l *ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns
}
