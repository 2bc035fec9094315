//go:build unix

package load

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// Gaps are the times from each call of Release to the next holder of that name.
func Gaps(turns []Turn) stats.Distribution {
	gaps := stats.Distribution{}
	sorted := slices.SortedFunc(slices.Values(turns), func(a, b Turn) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Acquired, b.Acquired))
	})
	for i := 1; i < len(sorted); i++ {
		if last, next := sorted[i-1], sorted[i]; last.Name == next.Name {
			gaps.Add(time.Duration(next.Acquired - last.Released))
		}
	}
	return gaps
}

// Merge adds up what several processes measured side by side, which counted the same servers.
func Merge(all []Result) Result {
	total := Result{Acquire: stats.Distribution{}, Both: stats.Distribution{}, Gaps: stats.Distribution{}}
	for _, r := range all {
		total.Ops += r.Ops
		total.Failed += r.Failed
		total.Elapsed = max(total.Elapsed, r.Elapsed)
		total.Cost = total.Cost.beside(r.Cost)
		total.Acquire.Merge(r.Acquire)
		total.Both.Merge(r.Both)
		total.Gaps.Merge(r.Gaps)
		total.Shares = append(total.Shares, r.Shares...)
		total.Turns = append(total.Turns, r.Turns...)
		total.Drained = max(total.Drained, r.Drained)
	}
	total.Gaps.Merge(Gaps(total.Turns))
	return total
}
