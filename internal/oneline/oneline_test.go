package oneline

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinedErrorsStandOnOneLineAndAreFound(t *testing.T) {
	require.NoError(t, Join())
	require.NoError(t, Join(nil, nil))
	require.EqualError(t, Join(nil, io.EOF), "EOF")
	err := Join(fmt.Errorf("a: %w", errors.Join(io.EOF, errors.New("b"))), nil, io.ErrClosedPipe)
	require.EqualError(t, err, "a: EOF; b; io: read/write on closed pipe")
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, "a: EOF; b; io: read/write on closed pipe", Text(fmt.Errorf("%w", err)))
}

// A Config is checked whenever a node is opened.
func TestJoiningNoErrorsCostsNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = Join(nil, nil, nil) }))
}
