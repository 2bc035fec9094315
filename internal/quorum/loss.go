package quorum

// Loss is the reason why a vote was lost.
type Loss uint8

// The reasons of a lost vote.
const (
	// Split: contenders may have split the votes, so another attempt may win.
	Split Loss = iota
	// Held: another client has the lock.
	Held
	// NoQuorum: so many nodes did not vote that the others cannot grant.
	NoQuorum
)

// LossOf returns why a vote of n nodes was lost, given how many refused and how many failed or did
// not answer. blocked is the result of a query: one token is on a quorum of the nodes, or keys that
// outlive every attempt leave no quorum.
func LossOf(n, refused, failed int, blocked bool) Loss {
	switch {
	case blocked && Blocks(n, refused):
		return Held
	case Blocks(n, failed):
		return NoQuorum
	}
	return Split
}
