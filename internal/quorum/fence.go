package quorum

// Fence chooses an acquisition's fencing token from what the nodes counted up to when
// they granted, 0 for a node that did not. It is agreed when a majority counted up to
// exactly that number: then it is settled. Otherwise it is the largest, and every node
// of some majority of those that granted must first have its counter raised to it while
// it still holds the lock (docs/rules.md rule 12; internal/model visits every
// state of it for three nodes). It is 0 when fewer than need granted.
func Fence(counted []uint64, need int) (fence uint64, agreed bool) {
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

func same(counted []uint64, c uint64) (n int) {
	for _, d := range counted {
		if d == c {
			n++
		}
	}
	return n
}
