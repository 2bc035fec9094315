package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAServerErrorShowsTheServersText(t *testing.T) {
	require.EqualError(t, &ServerError{Code: "LOADING", Text: "LOADING Redis is loading"}, "LOADING Redis is loading")
}
