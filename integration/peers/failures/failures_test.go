package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

// No test asserts what the other libraries do, because they may be fixed at any time. The program reports it.
func TestWhatOthersWereSeenToFailAtIsWithstoodHere(t *testing.T) {
	for _, s := range scenarios {
		for _, k := range adapters.Kinds() {
			if !strings.HasPrefix(k.Name, adapters.Ours) {
				continue
			}
			t.Run(s.name+"/"+k.Name, func(t *testing.T) {
				v := best(t, 3, s, k, func(v verdict) bool { return !v.slow })
				assert.True(t, v.well, v.said)
			})
		}
	}
}

// A scenario that no client can fail proves nothing. This client has every defect.
func TestAClientWithEveryDefectFailsEveryScenario(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			v := best(t, 5, s, careless, func(v verdict) bool { return !v.well }) // if the client is too late for the fault, the scenario passes
			assert.False(t, v.well, v.said)
		})
	}
}

// best plays a scenario until the verdict is final, but at most so many times: a busy machine may be too slow.
func best(t *testing.T, times int, s scenario, k adapters.Kind, final func(verdict) bool) (v verdict) {
	t.Helper()
	for range times {
		var err error
		v, err = perform(t.Context(), s, k)
		require.NoError(t, err)
		if final(v) {
			break
		}
	}
	return v
}

func TestTheReportIsOneTableOfScenariosAndLibraries(t *testing.T) {
	verdicts := map[string]verdict{"plain": well("survives"), "fenced": ill("two holders", "two clients hold the lock"), "other": well("survives")}
	s := scenario{name: "a fault", hazard: "H1", play: func(_ context.Context, s *scene) (verdict, error) {
		v, known := verdicts[s.kind.Name]
		if !known {
			return v, errDoesNotApply
		}
		return v, nil
	}}
	broken := scenario{name: "another", hazard: "H2", quorum: true, play: func(context.Context, *scene) (verdict, error) {
		return verdict{}, errors.New("no server")
	}}
	var out bytes.Buffer
	report(t.Context(), &out, []scenario{s, broken}, []column{
		{"ours", []adapters.Kind{{Name: "plain", OneServer: true}, {Name: "fenced", OneServer: true}}},
		{"other", []adapters.Kind{{Name: "other"}}},
		{"one server", []adapters.Kind{{Name: "one server", OneServer: true}}},
	})
	assert.Equal(t, `| scenario ([hazard](hazards.md)) | ours | other | one server |
|---|---|---|---|
| 1. A fault (H1) | **two holders** | ok | – |
| 2. Another (H2) | – | **error** | – |

1. fenced: two clients hold the lock
2. other: cannot play the scenario: no server
`, out.String())
}

func TestTheColumnsAreThoseOfTheComparison(t *testing.T) {
	var heads []string
	for _, c := range columns() {
		heads = append(heads, c.head)
	}
	assert.Equal(t, []string{
		"go-redlock", "redsync, redigo", "… fail fast", "… SetNXOnExtend", "redsync, go-redis", "redsync, rueidis", "rueidislock", "bsm/redislock",
	}, heads)
}

func TestTimesAreRoundedToOneDigit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		780 * time.Millisecond: "800 ms", 990 * time.Millisecond: "1 s", 10040 * time.Millisecond: "10 s", 10460 * time.Millisecond: "10.5 s",
	} {
		assert.Equal(t, want, rounded(d))
	}
}
