package main

import (
	"fmt"
	"sync"
	"time"
)

// ledger is what the name protects. Its zero value is empty. It is safe for concurrent use.
type ledger struct {
	mu     sync.Mutex // guards what follows
	inside map[string]time.Time
	turns  int
}

// enter records that who is inside, with a lock of the given validity. It returns an error if
// another client is inside whose lock is still valid. A lock whose validity is over excludes no
// other client, and its holder can tell.
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
