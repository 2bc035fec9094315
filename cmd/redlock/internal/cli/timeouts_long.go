//go:build redlock_long_timeouts

package cli

// Tests build the command with this tag. A run reports a release that was not confirmed within CloseTimeout. So
// CloseTimeout is as long as an answer counts.
func init() {
	Lengthen()
	CloseTimeout = ColdTimeout
}
