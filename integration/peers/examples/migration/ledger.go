package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// errNotExcluded is the error of a lock that excludes nobody. No busy machine is an excuse for it.
var errNotExcluded = errors.New("not excluded")

// ledger is what the name protects. Its zero value is empty. It is safe for concurrent use.
type ledger struct {
	mu     sync.Mutex // guards what follows
	inside map[string]time.Time
	turns  int
}

// enter records that who is inside, with a lock that is valid until then. It returns errNotExcluded
// if another client is inside whose lock is still valid. A lock whose validity is over excludes no
// other client, and its holder can tell.
func (l *ledger) enter(who string, until time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for other, end := range l.inside {
		if end.After(now) {
			return fmt.Errorf("%w: %s and %s are inside at once", errNotExcluded, who, other)
		}
	}
	if l.inside == nil {
		l.inside = make(map[string]time.Time)
	}
	l.inside[who] = until
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
