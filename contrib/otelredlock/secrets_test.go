package otelredlock_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// A server may repeat what it was sent, in any words. Errors of nodes are in statuses and events of spans.
func TestNoSpanShowsATokenThatAServerRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		tokens := map[string]bool{}
		var nodes []redlock.Node
		for i := range 3 {
			m := fakeredis.New(fmt.Sprint("n", i+1))
			defer m.Close()
			m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
				if cmd != "SET" {
					return "", false
				}
				mu.Lock()
				defer mu.Unlock()
				tokens[args[1]] = true
				return "ERR not " + strings.Join(args, ", "), true
			})
			n, err := pool.Open(pool.Config{Name: m.Name(), Address: m.Addr(), Dial: m.Dial, Clock: clock.Runtime()})
			require.NoError(t, err)
			defer n.Close()
			nodes = append(nodes, n)
		}
		spans := tracetest.NewSpanRecorder()
		hooks, err := otelredlock.New(otelredlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans))))
		require.NoError(t, err)
		l, err := redlock.New(nodes, redlock.WithTrace(hooks), redlock.WithClock(clock.Runtime()))
		require.NoError(t, err)
		defer l.Close(t.Context())
		_, err = l.TryAcquire(t.Context(), name, time.Minute)
		require.ErrorContains(t, err, "ERR not")
		synctest.Wait()
		require.NotEmpty(t, tokens)
		shown := fmt.Sprintf("%v %+v", err, tracetest.SpanStubsFromReadOnlySpans(spans.Ended()))
		require.Contains(t, shown, "ERR not", "the servers' errors are there")
		for token := range tokens {
			require.NotContains(t, shown, token)
		}
	})
}
