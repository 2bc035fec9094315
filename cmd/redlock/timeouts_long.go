//go:build redlock_long_timeouts

package main

// Tests build the command with this tag.
func init() { lengthen() }
