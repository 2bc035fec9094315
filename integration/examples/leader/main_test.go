package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
)

func TestALeaderThatHangsStepsDownBeforeAnotherLeads(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, show.Run("leader", play, nil, &out, &errs), "%s%s", &out, &errs)
	require.Empty(t, errs.String())
	require.Contains(t, out.String(), "A  steps down: redlock: lock lost")
	require.Contains(t, out.String(), "Never two leaders")
}
