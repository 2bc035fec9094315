package pool

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// said makes answers from pairs: a master, and how many seconds ago the query was sent.
func said(now clock.Instant, what ...any) []answer {
	var all []answer
	for i := 0; i < len(what); i += 2 {
		master, _ := what[i].(string)
		ago, _ := what[i+1].(int)
		all = append(all, answer{sentinel: "s", master: master, asked: now.Add(-time.Duration(ago) * time.Second), answered: true})
	}
	return all
}

func TestAMasterIsNamedByAMajorityOfTheConfiguredSentinels(t *testing.T) {
	const fresh = 5 * time.Second
	now := clock.Instant(time.Hour)
	for what, c := range map[string]struct {
		all    []answer
		master string
		left   time.Duration
	}{
		"one of one":                       {said(now, "a", 0), "a", 5 * time.Second},
		"all of three":                     {said(now, "a", 0, "a", 0, "a", 0), "a", 5 * time.Second},
		"two of three":                     {said(now, "a", 0, "b", 0, "a", 0), "a", 5 * time.Second},
		"two of four":                      {said(now, "a", 0, "a", 0, "b", 0, "", 0), "", 0},
		"three of four":                    {said(now, "a", 0, "a", 0, "a", 0, "", 0), "a", 5 * time.Second},
		"one that answers of three":        {said(now, "a", 0, "", 0, "", 0), "", 0},
		"two of five that answer":          {said(now, "a", 0, "a", 0, "", 0, "", 0, "", 0), "", 0},
		"as long as the second of three":   {said(now, "a", 4, "a", 1, "a", 2), "a", 3 * time.Second},
		"as long as the older one of two":  {said(now, "a", 4, "b", 0, "a", 1), "a", time.Second},
		"longer ago than it counts":        {said(now, "a", 7, "a", 9, "b", 0), "a", -4 * time.Second},
		"nobody":                           {nil, "", 0},
		"none of those that were asked":    {said(now, "", 0, "", 0, "", 0), "", 0},
		"each another one":                 {said(now, "a", 0, "b", 0, "c", 0), "", 0},
		"the new one as soon as there are": {said(now, "b", 0, "b", 1, "a", 0), "b", 4 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			master, until, ok := majorityMaster(c.all, len(c.all)/2+1, fresh)
			require.Equal(t, c.master, master)
			require.Equal(t, c.master != "", ok)
			if ok {
				require.Equal(t, c.left, until.Sub(now))
			}
		})
	}
}

func TestADialWaitsOnlyForSentinelsThatCanDecide(t *testing.T) {
	silent, broken := answer{}, answer{answered: true, err: errors.New("refused"), master: "a"}
	a, b := answer{answered: true, master: "a"}, answer{answered: true, master: "b"}
	for what, c := range map[string]struct {
		all  []answer
		want bool
	}{
		"all are silent":                      {[]answer{silent, silent, silent}, true},
		"one may be the second":               {[]answer{a, b, silent}, true},
		"one may be the second after one":     {[]answer{a, broken, silent}, true},
		"one is not enough":                   {[]answer{broken, broken, silent}, false},
		"none is silent, and all is in vain":  {[]answer{a, b, broken}, false},
		"none is silent, and it may be stale": {[]answer{a, a, a}, false},
	} {
		require.Equal(t, c.want, mayStillDecide(c.all, 2), what)
	}
}
