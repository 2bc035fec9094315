//go:build redlock_long_timeouts

package cli

// Tests build the command with this tag.
func init() { Lengthen() }
