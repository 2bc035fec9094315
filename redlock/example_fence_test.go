package redlock_test

import (
	"fmt"

	"github.com/quorumlock/go-redlock/redlock"
)

// A resource remembers the largest fence that it let through, and whose it was. In a
// database that is the WHERE of the statement that writes: integration/examples/fencing
// has it in SQL.
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
	write("A", 33) // it goes on
	write("C", 34) // a node forgot its counter: nobody shares a number
	// Output:
	// A writes
	// A writes
	// B writes
	// A is turned away
	// C is turned away
}
