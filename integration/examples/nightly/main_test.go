package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
)

func TestTheReportIsWrittenOnceByAllInstances(t *testing.T) {
	var out, errs bytes.Buffer
	for range 5 {
		out.Reset()
		errs.Reset()
		var failed error
		show.Run("nightly", func(ctx context.Context, s *show.Stage) error {
			failed = play(ctx, s)
			return failed
		}, nil, &out, &errs)
		require.LessOrEqual(t, bytes.Count(out.Bytes(), []byte("writes the report")), 1, "%s", &out)
		if !wereLate(failed) {
			break
		}
	}
	require.Empty(t, errs.String(), "%s", &out)
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("writes the report")), "%s", &out)
	require.Equal(t, machines-1, bytes.Count(out.Bytes(), []byte("leaves it to m")), "%s", &out)
}

// wereLate reports whether the allowance of some machines was over, as may happen on a busy machine, and
// no machine failed otherwise.
func wereLate(err error) bool {
	joined, _ := err.(interface{ Unwrap() []error }) // play joins the errors of the machines
	return joined != nil && !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) })
}
