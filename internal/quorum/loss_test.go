package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/quorum"
)

// Every vector of votes of up to five nodes is tested, with keys that block and without. The result
// is Held only if the nodes that did not refuse are no majority. Too many faults are never a
// refusal.
func TestALossIsHeldOrAFaultOrASplit(t *testing.T) {
	for n := 1; n <= 5; n++ {
		sequences(n, func(votes []vote) {
			refused, failed := count(votes, refuse), count(votes, fail)
			refusedAll := 2*(n-refused) <= n // the nodes that did not refuse are not a majority
			failedAll := 2*(n-failed) <= n
			for _, blocked := range []bool{false, true} {
				want := quorum.Split
				if failedAll {
					want = quorum.NoQuorum
				}
				if refusedAll && blocked {
					want = quorum.Held
				}
				require.Equal(t, want, quorum.LossOf(n, refused, failed, blocked), "%v of %d, blocked %v", votes, n, blocked)
			}
		})
	}
	for _, c := range []struct {
		n, refused, failed int
		blocked            bool
		want               quorum.Loss
	}{
		{3, 2, 0, true, quorum.Held},
		{3, 2, 0, false, quorum.Split},
		{3, 1, 2, true, quorum.NoQuorum}, // two of three do not answer, the third refuses
		{3, 1, 1, true, quorum.Split},
		{5, 2, 2, true, quorum.Split},
		{5, 3, 2, true, quorum.Held},
		{5, 2, 3, false, quorum.NoQuorum},
		{4, 2, 2, false, quorum.NoQuorum},
		{4, 2, 2, true, quorum.Held},
		{1, 1, 0, true, quorum.Held},
	} {
		require.Equal(t, c.want, quorum.LossOf(c.n, c.refused, c.failed, c.blocked), "%+v", c)
	}
}
