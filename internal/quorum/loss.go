package quorum

// Loss is why a vote was lost.
type Loss uint8

// The reasons.
const (
	// Split: contenders may have shared the votes, so that a repetition may win.
	Split Loss = iota
	// Held: another client has the lock.
	Held
	// NoQuorum: so many nodes gave no vote that the rest cannot grant.
	NoQuorum
)

// String names the reason.
func (l Loss) String() string {
	switch l {
	case Split:
		return "split"
	case Held:
		return "held"
	case NoQuorum:
		return "no quorum"
	}
	return "invalid"
}

// LossOf returns why a vote of n nodes was lost, of which some refused and some failed or did not
// answer. Blocked reports what a query of the nodes found: one token is on a quorum of them, or keys
// that outlive every attempt leave no quorum.
func LossOf(n, refused, failed int, blocked bool) Loss {
	spare := n - Majority(n)
	switch {
	case refused > spare && blocked:
		return Held
	case failed > spare:
		return NoQuorum
	}
	return Split
}
