package waiting

import (
	"slices"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/verdict"
)

// sighted is what a waiter has seen of those that hold its names. The waiter's own goroutine alone uses it.
type sighted struct {
	tokens  []string      // that held the names after the last query for them
	changed clock.Instant // when others held them than before; 0: never
	vain    int           // attempts after messages while the same tokens held the names
	foreign bool          // one of them was not from this library
}

// A waiter that has heard of more releases than patience, and found the same tokens each time, makes pauses,
// which double: messages may be forged.
const (
	patience     = 16
	maxDoublings = 16
)

// awaited returns which names a waiter for several awaits, now that these tokens hold them: if the same one as before holds
// one of them, that one alone. Otherwise it would count as one that comes for another name when that is released. now is
// which it awaits so far.
func (s *sighted) awaited(now, names, tokens []string) []string {
	if tokens != nil {
		now = names
	}
	for i := range min(len(tokens), len(s.tokens)) {
		if tokens[i] != "" && tokens[i] == s.tokens[i] {
			now = names[i : i+1]
		}
	}
	return now
}

// note records which tokens hold the names. It reports whether the same ones do as before.
func (s *sighted) note(now clock.Instant, seen verdict.Contention) (same bool) {
	s.foreign = seen.Foreign
	if seen.Tokens != nil && slices.Equal(seen.Tokens, s.tokens) {
		return true
	}
	if seen.Tokens != nil && s.tokens != nil {
		s.changed = now
	}
	s.tokens, s.vain = seen.Tokens, 0
	return false
}

// changing reports whether the names changed hands a short time ago.
func (s *sighted) changing(now clock.Instant) bool {
	return s.changed != 0 && now.Sub(s.changed) < busy
}

// inVain counts an attempt after a message that found the name held. It returns how often the pause before the next one has
// doubled, or 0 if there is none.
func (s *sighted) inVain() (doublings int) {
	s.vain++
	return min(max(0, s.vain-patience), maxDoublings)
}
