// Package clocktest has a clock for tests of programs that take a [clock.Clock]. The clock runs at
// another rate, jumps, stalls and is suspended on command.
package clocktest
