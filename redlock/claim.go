package redlock

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/go-redlock/internal/claim"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Claim is a lock without a handle: Detach returns it, and Resume makes a handle of it again.
// A Claim is resumed by one process at a time, and not after its release: if two processes resume
// copies of it, both hold the same lock, with the same fence. It marshals to text, which is a
// string in JSON. Keep it like a password, because it contains the token, which can release the
// lock. String hides the token, but package fmt calls no methods on unexported fields, and prints a
// Claim in one with its token. A program that can change a claim can change its names, TTL and
// fence: take claims from trusted places only.
type Claim struct {
	Names []string
	Token string
	// Fence is the fencing token, below 2^53, or 0 without fencing. It cannot be read back from the
	// nodes, because their counters may have been raised by the next holder.
	Fence int64
	// TTL is the TTL of the acquisition, in whole milliseconds. Automatic extensions after Resume ask
	// for it.
	TTL time.Duration
}

// String describes the claim without its token.
func (c Claim) String() string {
	return fmt.Sprintf("claim on %s by %s", quoted(c.Names), command.Mask(c.Token))
}

// GoString returns String, so that %#v does not show the token.
func (c Claim) GoString() string { return c.String() }

// LogValue returns String. Otherwise package log/slog would marshal the claim and show the token.
func (c Claim) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText returns a form without spaces, for command lines and environment variables.
func (c Claim) MarshalText() ([]byte, error) { return claim.Claim(c).Text() }

// UnmarshalText parses the form of MarshalText. Its errors match ErrInvalid.
func (c *Claim) UnmarshalText(text []byte) error {
	parsed, err := claim.ParseText(text)
	if err != nil {
		return invalid("%w", err)
	}
	*c = Claim(parsed)
	return nil
}

// check rejects a claim that no Lock of this library can have given.
func (c Claim) check(wall int64) error {
	switch {
	case c.Token == "":
		return invalid("claim without a token")
	case !command.WellFormed(c.Token), !command.ValidLabel(command.Label(c.Token)):
		return invalid("claim's token does not have the form of this library's tokens")
	case c.Fence < 0 || c.Fence >= maxFence:
		return invalid("claim's fence %d is not between 0 and 2^53-1", c.Fence)
	}
	if ahead := time.Duration(c.Fence-wall) * time.Microsecond; ahead > maxFenceAhead {
		return invalid("the claim's fence of %d is ahead of this machine's clock by more than %v", c.Fence, maxFenceAhead)
	}
	return nil
}

// maxFenceAhead is how far a claim's fence may be ahead of this machine's clock. Fences are microseconds of Unix time, or
// follow on such a fence. An extension raises the fence counters to the claim's fence: one that was changed to the
// largest number would use them up.
const maxFenceAhead = 366 * 24 * time.Hour
