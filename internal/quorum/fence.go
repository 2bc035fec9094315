package quorum

// Fence chooses an acquisition's fencing token. counted has the count of each node at its grant,
// and 0 for a node that did not grant. If a majority has the same count, that is the token, and
// agreed is true. Otherwise the token is the largest count. It may be used only after every node of
// some majority of those that granted has raised its counter to it, while the node still holds the
// lock (docs/dev/rules.md rule 12). The proof has it for any number of nodes (proof/Fences.v).
// The token is 0 if fewer than need nodes granted.
func Fence(counted []int64, need int) (fence int64, agreed bool) {
	granted := 0
	for _, c := range counted {
		if c == 0 {
			continue
		}
		granted++
		if same(counted, c) >= need {
			return c, true
		}
		fence = max(fence, c)
	}
	if granted < need {
		return 0, false
	}
	return fence, false
}

func same(counted []int64, c int64) (n int) {
	for _, d := range counted {
		if d == c {
			n++
		}
	}
	return n
}
