//go:build slow

package main

import "time"

// The tests of processes build the command with this tag, because a busy machine may stop a process
// for seconds.
func init() {
	slowdown = 4
	closeTimeout, coldTimeout, answerTimeout = slowed(closeTimeout), slowed(coldTimeout), 30*time.Second
}
