package quorum

// MaxNodes is the largest number of nodes of a vote.
const MaxNodes = 64

// Nodes is a set of nodes by their index, below MaxNodes. The zero value is empty.
type Nodes uint64

// Has reports whether a node is in the set.
func (s Nodes) Has(node int) bool { return s&(1<<node) != 0 }

// With returns the set with the node added.
func (s Nodes) With(node int) Nodes { return s | 1<<node }

// Without returns the set without the node.
func (s Nodes) Without(node int) Nodes { return s &^ (1 << node) }

// Len returns the number of nodes in the set.
func (s Nodes) Len() (n int) {
	for ; s != 0; s &= s - 1 {
		n++
	}
	return n
}
