package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/quorum"
)

// every calls f with all lists of n numbers below base.
func every(n int, base int64, f func(list []int64)) {
	list := make([]int64, n)
	for {
		f(list)
		i := 0
		for ; i < n; i++ {
			if list[i]++; list[i] < base {
				break
			}
			list[i] = 0
		}
		if i == n {
			return
		}
	}
}

func TestAFenceIsWhatAMajorityCountedOrTheLargest(t *testing.T) {
	for n := 1; n <= 6; n++ {
		need := quorum.Majority(n)
		every(n, 4, func(counted []int64) {
			fence, agreed := quorum.Fence(counted, need)
			granted, largest := 0, int64(0)
			times := map[int64]int{}
			for _, c := range counted {
				if c > 0 {
					granted++
					times[c]++
					largest = max(largest, c)
				}
			}
			switch {
			case granted < need:
				require.Zero(t, fence, "%v", counted)
				require.False(t, agreed, "%v", counted)
			case agreed:
				require.GreaterOrEqual(t, times[fence], need, "%v", counted)
			default:
				require.Equal(t, largest, fence, "%v", counted)
				for c, k := range times {
					require.Less(t, k, need, "%v: %d needs no confirmation", counted, c)
				}
			}
		})
	}
}
