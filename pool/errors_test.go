package pool

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/transport"
)

func TestAServerErrorShowsTheServersText(t *testing.T) {
	require.EqualError(t, &ServerError{Code: "LOADING", Text: "LOADING Redis is loading"}, "LOADING Redis is loading")
}

func TestTheErrorOfAServerIsAServerErrorWhateverIsAroundIt(t *testing.T) {
	err := resp.Clean(redis.Error("LOADING Redis is loading"))
	for _, around := range []error{
		err,
		fmt.Errorf("n: %w", err),
		transport.DialError{Text: "n", Cause: err},
		errors.Join(io.EOF, err),
		oneline.Join(io.EOF, fmt.Errorf("n: %w", err)),
		multierror.Append(io.EOF, err),
	} {
		var se *ServerError
		require.ErrorAs(t, around, &se)
		require.Equal(t, &ServerError{Code: "LOADING", Text: "LOADING Redis is loading"}, se)
	}
	var other *QuarantineError
	require.NotErrorAs(t, err, &other)
}
