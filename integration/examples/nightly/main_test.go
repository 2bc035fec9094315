package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
)

func TestTheReportIsWrittenOnceByAllInstances(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, show.Run("nightly", play, nil, &out, &errs), "%s%s", &out, &errs)
	require.Empty(t, errs.String())
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("writes the report")), "%s", &out)
	require.Equal(t, machines-1, bytes.Count(out.Bytes(), []byte("leaves it to m")), "%s", &out)
}
