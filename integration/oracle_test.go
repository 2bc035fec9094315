package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// hold is the time in which a contender could believe that a lock was its own: from when Acquire had returned until it called Release
// or the validity was over. Both are readings of one clock that all processes of the machine share.
type hold struct {
	contender string
	names     []string
	from, to  time.Duration
}

func (h hold) String() string {
	return fmt.Sprintf("%s held %v from %v to %v", h.contender, h.names, h.from, h.to)
}

// overlaps are all pairs of holds that had a name in common at the same time. Locks exclude each other if there are none.
func overlaps(holds []hold) []string {
	byStart := slices.Clone(holds)
	slices.SortFunc(byStart, func(a, b hold) int { return int(a.from - b.from) })
	var found []string
	latest := make(map[string]hold) // of each name, the hold that ended last so far
	for _, h := range byStart {
		if h.to <= h.from {
			continue // over when Acquire returned it
		}
		for _, name := range h.names {
			before := latest[name]
			if before.to > h.from {
				found = append(found, fmt.Sprintf("%v; %v", before, h))
			}
			if h.to > before.to {
				latest[name] = h
			}
		}
	}
	return found
}

func TestTheOracleFindsEveryOverlap(t *testing.T) {
	x, y := []string{"x"}, []string{"y"}
	for name, c := range map[string]struct {
		holds []hold
		found int
	}{
		"one after the other":              {[]hold{{"a", x, 10, 20}, {"b", x, 20, 30}}, 0},
		"at once":                          {[]hold{{"b", x, 19, 30}, {"a", x, 10, 20}}, 1},
		"at once, on other names":          {[]hold{{"a", x, 10, 20}, {"b", y, 10, 20}}, 0},
		"one of several names":             {[]hold{{"a", []string{"x", "y"}, 10, 20}, {"b", y, 15, 25}}, 1},
		"inside of a longer one":           {[]hold{{"a", x, 10, 90}, {"b", x, 20, 30}, {"c", x, 40, 50}}, 2},
		"over before it began":             {[]hold{{"a", x, 10, 90}, {"b", x, 20, 20}, {"c", x, 40, 30}}, 0},
		"behind a short one in a long one": {[]hold{{"a", x, 0, 50}, {"b", x, 10, 20}, {"c", x, 30, 60}}, 2},
	} {
		assert.Len(t, overlaps(c.holds), c.found, name)
	}
}
