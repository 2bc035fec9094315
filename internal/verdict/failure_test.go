package verdict

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every number of votes of up to five nodes is tested, with keys that block and without. The result
// is Held only if the nodes that did not refuse are no majority. Too many faults are never a
// refusal.
func TestALossIsHeldOrAFaultOrASplit(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for refused := range n + 1 {
			for failed := range n - refused + 1 {
				refusedAll := 2*(n-refused) <= n // the nodes that did not refuse are not a majority
				failedAll := 2*(n-failed) <= n
				for _, blocked := range []bool{false, true} {
					want := Split
					if failedAll {
						want = Fault
					}
					if refusedAll && blocked {
						want = Held
					}
					require.Equal(t, want, Lost(n, refused, failed, blocked), "%d refused and %d failed of %d, blocked %v", refused, failed, n, blocked)
				}
			}
		}
	}
	for _, c := range []struct {
		n, refused, failed int
		blocked            bool
		want               Why
	}{
		{3, 2, 0, true, Held},
		{3, 2, 0, false, Split},
		{3, 1, 2, true, Fault}, // two of three do not answer, the third refuses
		{3, 1, 1, true, Split},
		{5, 2, 2, true, Split},
		{5, 3, 2, true, Held},
		{5, 2, 3, false, Fault},
		{4, 2, 2, false, Fault},
		{4, 2, 2, true, Held},
		{1, 1, 0, true, Held},
	} {
		require.Equal(t, c.want, Lost(c.n, c.refused, c.failed, c.blocked), "%+v", c)
	}
}
