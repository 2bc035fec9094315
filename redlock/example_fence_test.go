package redlock_test

import (
	"fmt"

	"github.com/quorumlock/go-redlock/redlock"
)

// A resource stores the largest fence that it accepted and the owner of that fence. In a database
// this is the WHERE clause of the statement that writes: integration/examples/fencing shows it in
// SQL.
func ExampleAcceptFence() {
	var seen int64
	var owner string
	write := func(who string, fence int64) {
		if !redlock.AcceptFence(seen, owner, fence, who) {
			fmt.Println(who, "is turned away")
			return
		}
		seen, owner = fence, who
		fmt.Println(who, "writes")
	}
	write("A", 33)
	write("A", 33) // as often as it likes
	write("B", 34) // A is paused, and its lease has ended
	write("A", 33) // A continues
	write("C", 34) // a node lost its counter: owners never share a number
	// Output:
	// A writes
	// A writes
	// B writes
	// A is turned away
	// C is turned away
}
