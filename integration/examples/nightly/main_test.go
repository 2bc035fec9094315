package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
)

func TestTheReportIsWrittenOnceByAllInstances(t *testing.T) {
	var out, errs bytes.Buffer
	for range 5 { // on a busy machine the allowance of one of them may be too short
		out.Reset()
		errs.Reset()
		status := show.Run("nightly", play, nil, &out, &errs)
		require.LessOrEqual(t, bytes.Count(out.Bytes(), []byte("writes the report")), 1, "%s", &out)
		if status == 0 {
			break
		}
	}
	require.Empty(t, errs.String(), "%s", &out)
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("writes the report")), "%s", &out)
	require.Equal(t, machines-1, bytes.Count(out.Bytes(), []byte("leaves it to m")), "%s", &out)
}
