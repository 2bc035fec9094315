//go:build unix

package load

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// HandoffGaps returns the times from each call of Release to the next holder of that name.
func HandoffGaps(turns []Turn) stats.Distribution {
	distribution := stats.Distribution{}
	sorted := slices.SortedFunc(slices.Values(turns), func(a, b Turn) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Acquired, b.Acquired))
	})
	for i := 1; i < len(sorted); i++ {
		if last, next := sorted[i-1], sorted[i]; last.Name == next.Name {
			distribution.Add(time.Duration(next.Acquired - last.Released))
		}
	}
	return distribution
}

// Merge adds up the results of several processes that ran side by side. Their counts of the servers
// are not added: all counted the same servers.
func Merge(all []Result) Result {
	total := Result{Acquire: stats.Distribution{}, Both: stats.Distribution{}, HandoffGaps: stats.Distribution{}}
	for _, r := range all {
		total.Ops += r.Ops
		total.Failed += r.Failed
		total.Elapsed = max(total.Elapsed, r.Elapsed)
		total.Cost = total.Cost.beside(r.Cost)
		total.Acquire.Merge(r.Acquire)
		total.Both.Merge(r.Both)
		total.HandoffGaps.Merge(r.HandoffGaps)
		total.Shares = append(total.Shares, r.Shares...)
		total.Turns = append(total.Turns, r.Turns...)
		total.Drained = max(total.Drained, r.Drained)
		total.Longest = max(total.Longest, r.Longest)
	}
	total.HandoffGaps.Merge(HandoffGaps(total.Turns))
	return total
}
