package nodename

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADefaultNameDoesNotDependOnTheOrderOfAddresses(t *testing.T) {
	require.Equal(t, "a:1/2", Master("a:1", 2))
	require.Equal(t, "m@a:1/0", Sentinels("m", []string{"b:1", "a:1"}, 0))
	require.Equal(t, "m@/0", Sentinels("m", nil, 0))
	require.Equal(t, "cluster@a:1", Cluster([]string{"b:1", "a:1"}))
}
