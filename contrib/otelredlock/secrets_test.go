package otelredlock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// repeater is a server that refuses every command except INFO, and repeats it.
type repeater struct {
	mu     sync.Mutex
	tokens map[string]bool // of the commands so far
}

func (r *repeater) dial(_ context.Context, _, address string) (net.Conn, error) {
	client, conn := net.Pipe()
	answers := make(chan string, 100) // the client writes its handshake before it reads
	go func() {
		defer close(answers)
		for in := bufio.NewReader(conn); ; {
			args, err := readCommand(in)
			if err != nil {
				return // the client has closed the connection
			}
			answers <- r.answer(address, args)
		}
	}()
	go func() {
		defer conn.Close()
		for answer := range answers {
			_, _ = io.WriteString(conn, answer) // or the client has closed the connection
		}
	}()
	return client, nil
}

func (r *repeater) answer(address string, args []string) string {
	switch args[0] {
	case "INFO":
		info := "role:master\r\nrun_id:" + address + "\r\n" // otherwise it does not vote
		return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
	case "SET":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tokens[args[2]] = true
	}
	return "-ERR not " + strings.Join(args, ", ") + "\r\n"
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in)
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(in)
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

// readLength reads the number of a line such as *3 or $5.
func readLength(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// A server may repeat what it was sent, in any words. Errors of nodes are in statuses and events of spans.
func TestNoSpanShowsATokenThatAServerRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &repeater{tokens: map[string]bool{}}
		var nodes []*pool.Node
		for i := range 3 {
			name := fmt.Sprint("n", i+1)
			n, err := pool.Open(pool.Config{Name: name, Address: name + ":6379", Dial: r.dial, Clock: clock.Runtime()})
			require.NoError(t, err)
			nodes = append(nodes, n)
		}
		spans := tracetest.NewSpanRecorder()
		hooks, err := otelredlock.New(otelredlock.WithMeterProvider(noop.NewMeterProvider()),
			otelredlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans))))
		require.NoError(t, err)
		l, err := redlock.New(nodes, redlock.WithTrace(hooks), redlock.WithClock(clock.Runtime()))
		require.NoError(t, err)
		defer l.Close(t.Context())
		_, err = l.TryAcquire(t.Context(), name, time.Minute)
		require.ErrorContains(t, err, "ERR not")
		synctest.Wait()
		require.NotEmpty(t, r.tokens)
		shown := fmt.Sprintf("%v %+v", err, tracetest.SpanStubsFromReadOnlySpans(spans.Ended()))
		require.Contains(t, shown, "ERR not", "the servers' errors are there")
		for token := range r.tokens {
			require.NotContains(t, shown, token)
		}
	})
}
