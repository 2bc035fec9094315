//go:build redlock_long_timeouts

package cli

// Tests build the command with this tag. A run says so if its release was not confirmed within CloseTimeout, so it
// waits for as long as an answer counts.
func init() {
	Lengthen()
	CloseTimeout = ColdTimeout
}
