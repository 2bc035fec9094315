package late_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/late"
)

func TestWithoutASeedNoNodeIsLate(t *testing.T) {
	t.Setenv(late.Variable, "")
	s := late.Of(t, 3)
	require.Nil(t, s)
	assert.False(t, s.Is(0))
	assert.Zero(t, s.Next())
	assert.False(t, late.On())
	t.Run("left out", func(t *testing.T) { late.LeaveOut(t, "never") })
}

func TestANodeOfOneOrTwoIsNotLateBecauseAMajorityIsAll(t *testing.T) {
	t.Setenv(late.Variable, "1")
	require.Nil(t, late.Of(t, 1))
	require.Nil(t, late.Of(t, 2))
}

func TestASeedDecidesWhichNodeIsLateForWhomAndByHowMuch(t *testing.T) {
	drawn := map[int]bool{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		t.Setenv(late.Variable, seed)
		s, again := late.Of(t, 3), late.Of(t, 3)
		of, some := 0, 0
		for node := range 3 {
			require.Equal(t, s.Is(node), again.Is(node))
			if s.Is(node) {
				of++
				drawn[node] = true
			}
		}
		require.Equal(t, 1, of)
		for range 100 {
			by := s.Next()
			require.Equal(t, by, again.Next())
			if by != 0 {
				some++
				require.GreaterOrEqual(t, by, 200*time.Millisecond)
				require.Less(t, by, time.Second)
			}
		}
		assert.Greater(t, some, 33)
		assert.Less(t, some, 100)
	}
	assert.Len(t, drawn, 3)
}

func TestADelayIsLessThanANodeTimeout(t *testing.T) {
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		t.Setenv(late.Variable, seed)
		s := late.Within(t, 3, 300*time.Millisecond)
		for range 10 {
			if by := s.Next(); by != 0 {
				require.GreaterOrEqual(t, by, 200*time.Millisecond)
				require.Less(t, by, 300*time.Millisecond)
			}
		}
	}
}

func TestATestThatMakesANodeFailMakesItTheLateOne(t *testing.T) {
	var none *late.Set
	none.At(1)
	t.Setenv(late.Variable, "1")
	s := late.Of(t, 5)
	for node := range 5 {
		s.At(node)
		for other := range 5 {
			require.Equal(t, other == node, s.Is(other))
		}
	}
}

func TestATestThatMeasuresTimesIsLeftOut(t *testing.T) {
	t.Setenv(late.Variable, "1")
	t.Run("left out", func(t *testing.T) {
		defer func() { assert.True(t, t.Skipped()) }()
		late.LeaveOut(t, "it measures times")
		t.Error("it runs")
	})
}
