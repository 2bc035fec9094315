package main

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// happened are series of what happens to the locks of the example.
var happened = []string{
	`redlock_attempts_total{redlock_outcome="acquired"}`,
	`redlock_acquire_duration_seconds_bucket{redlock_outcome="acquired",le="0.001"}`,
	`redlock_hold_duration_seconds_count{redlock_end_reason="released"}`,
	`redlock_locks_held `,
	`redlock_release_validity_seconds_sum`,
	`redlock_node_errors_total{error_type="no_connection",redlock_node="n3",redlock_operation="acquire"}`,
	`redlock_nodes_quarantined `,
	`redlock_node_voting{redlock_node="n1"} `,
}

func TestPrometheusReadsWhatHappenedToTheLocks(t *testing.T) {
	served := example(t)
	for _, series := range happened {
		require.Contains(t, served, series)
	}
}

func TestTheMetricsAreServedMeanwhile(t *testing.T) {
	stop, err := serve("127.0.0.1:0", http.NotFoundHandler())
	require.NoError(t, err)
	stop()
	_, err = serve("127.0.0.1:-1", http.NotFoundHandler())
	require.Error(t, err)
	require.Equal(t, 2, run([]string{"word"}, &bytes.Buffer{}, &bytes.Buffer{}))
}
