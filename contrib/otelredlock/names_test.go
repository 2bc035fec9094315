package otelredlock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
)

// A server may answer by any word.
func TestOnlyKnownCodesOfServersAreValuesOfAnAttribute(t *testing.T) {
	for given, want := range map[string]string{"LOADING": "LOADING", "ERR": "ERR", "": "_OTHER", "SOMETHINGELSE": "_OTHER"} {
		word, some := code(&pool.ServerError{Code: given, Text: given + " text"})
		require.True(t, some)
		require.Equal(t, want, word)
	}
}

func TestANilOptionIsSkipped(t *testing.T) {
	trace, err := New(nil, WithoutNames(), nil)
	require.NoError(t, err)
	require.NotNil(t, trace)
}
