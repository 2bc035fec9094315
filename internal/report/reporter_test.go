package report_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/report"
)

func TestHooksThatFallBehindAreDroppedAndTheLogCountsThem(t *testing.T) {
	const most = 4096 // that wait
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ran, gate := 0, make(chan struct{})
		r := report.New(slog.New(slog.NewTextHandler(&log, nil)))
		hook := func() { <-gate; ran++ }
		r.Run(hook)
		synctest.Wait() // from here on everything waits for the hook
		for range most + 100 {
			r.Run(hook)
		}
		close(gate)
		synctest.Wait()
		require.GreaterOrEqual(t, ran, most)
		require.Less(t, ran, most+101)
		dropped := regexp.MustCompile(`dropped=(\d+)`).FindStringSubmatch(log.String())
		require.NotNil(t, dropped)
		require.Equal(t, strconv.Itoa(most+101-ran), dropped[1])
	})
}
