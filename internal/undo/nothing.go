package undo

import (
	"maps"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Nothing is the acquires that surely executed nothing on a connection. Their undos, which are queued behind them, have nothing to
// undo, so they need not be repeated. The zero value knows of none.
type Nothing struct {
	tokens map[string]clock.Instant // until when each is kept
}

// Failed is told a command that was answered by Failed: nothing was executed. After NOSCRIPT or a redirection that says so of the last
// sending only. If there is no room for an acquire, its undo is repeated, which is safe.
func (n *Nothing) Failed(c *command.Command, now clock.Instant) {
	if c.Op != command.Acquire || c.UsesEval() || c.Redirects > 0 || len(n.tokens) >= MaxParked {
		return
	}
	if n.tokens == nil {
		n.tokens = make(map[string]clock.Instant)
	}
	n.tokens[c.Token()] = now.Add(2 * c.TTL) // the undo follows within the TTL
}

// Forget drops acquires whose undo does not come here, because it went to another server or the lock was detached.
func (n *Nothing) Forget(now clock.Instant) {
	maps.DeleteFunc(n.tokens, func(_ string, until clock.Instant) bool { return !now.Before(until) })
}

// Undone is told the answer to an undo, and reports whether its acquire surely executed nothing. An acquire has one undo.
func (n *Nothing) Undone(c *command.Command) bool {
	_, nothing := n.tokens[c.Token()]
	delete(n.tokens, c.Token())
	return nothing && c.AcquiredHere // a repair or a Resume may have written the token elsewhere
}
