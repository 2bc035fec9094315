//go:build unix

package contenders_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/go-redlock/integration/contenders"
)

func held(who string, names []string, from, to time.Duration, fence int64) contenders.Hold {
	return contenders.Hold{Contender: who, Names: names, From: from, To: to, Fence: fence}
}

func TestTheOracleFindsEveryOverlap(t *testing.T) {
	x, y := []string{"x"}, []string{"y"}
	for name, c := range map[string]struct {
		holds []contenders.Hold
		found int
	}{
		"one after the other":             {[]contenders.Hold{held("a", x, 10, 20, 0), held("b", x, 20, 30, 0)}, 0},
		"at once":                         {[]contenders.Hold{held("b", x, 19, 30, 0), held("a", x, 10, 20, 0)}, 1},
		"at once, on other names":         {[]contenders.Hold{held("a", x, 10, 20, 0), held("b", y, 10, 20, 0)}, 0},
		"one of several names":            {[]contenders.Hold{held("a", []string{"x", "y"}, 10, 20, 0), held("b", y, 15, 25, 0)}, 1},
		"inside a longer one":             {[]contenders.Hold{held("a", x, 10, 90, 0), held("b", x, 20, 30, 0), held("c", x, 40, 50, 0)}, 2},
		"over before it began":            {[]contenders.Hold{held("a", x, 10, 90, 0), held("b", x, 20, 20, 0), held("c", x, 40, 30, 0)}, 0},
		"after a short one in a long one": {[]contenders.Hold{held("a", x, 0, 50, 0), held("b", x, 10, 20, 0), held("c", x, 30, 60, 0)}, 2},
	} {
		assert.Len(t, contenders.Overlaps(c.holds), c.found, name)
	}
}

func TestTheOracleFindsFencesThatDoNotIncrease(t *testing.T) {
	x, y := []string{"x"}, []string{"y"}
	for name, c := range map[string]struct {
		holds []contenders.Hold
		found int
	}{
		"increasing":                      {[]contenders.Hold{held("a", x, 10, 20, 7), held("b", x, 20, 30, 8)}, 0},
		"the same":                        {[]contenders.Hold{held("a", x, 10, 20, 7), held("b", x, 20, 30, 7)}, 1},
		"smaller":                         {[]contenders.Hold{held("b", x, 20, 30, 6), held("a", x, 10, 20, 7)}, 1},
		"of another name":                 {[]contenders.Hold{held("a", x, 10, 20, 7), held("b", y, 20, 30, 6)}, 0},
		"of a hold that was over at once": {[]contenders.Hold{held("a", x, 10, 20, 7), held("b", x, 20, 20, 6)}, 0},
	} {
		assert.Len(t, contenders.Disorder(c.holds), c.found, name)
	}
}

func TestTheLongestTimeWithoutAHolder(t *testing.T) {
	x := []string{"x"}
	holds := []contenders.Hold{held("c", x, 70, 80, 0), held("a", x, 10, 60, 0), held("b", x, 20, 30, 0), held("d", x, 85, 85, 0), held("e", x, 87, 90, 0)}
	assert.Equal(t, time.Duration(10), contenders.LongestGap(holds))
}
