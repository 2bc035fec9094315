package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

// What the others do is reported by the program, and not asserted: they may be mended any day.
func TestWhatOthersWereSeenToFailAtIsWithstoodHere(t *testing.T) {
	for _, s := range scenarios {
		for _, k := range adapters.Kinds() {
			if !strings.HasPrefix(k.Name, adapters.Ours) {
				continue
			}
			t.Run(s.name+"/"+k.Name, func(t *testing.T) {
				v, err := perform(t.Context(), s, k)
				require.NoError(t, err)
				assert.True(t, v.well, v.said)
			})
		}
	}
}

// A scenario that no client can fail says nothing: here is one with every defect.
func TestAClientWithEveryDefectFailsEveryScenario(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			v, err := perform(t.Context(), s, careless)
			if errors.Is(err, errDoesNotApply) {
				t.Fatal("it applies to every scenario")
			}
			require.NoError(t, err)
			assert.False(t, v.well, v.said)
		})
	}
}
