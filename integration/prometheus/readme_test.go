package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// program is a block of Go in a page that is a whole program.
var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The program of otelredlock's README serves metrics of locks on real servers, until it is interrupted.
func TestTheProgramOfTheREADMEServesMetrics(t *testing.T) {
	page, err := os.ReadFile("../../contrib/otelredlock/README.md")
	require.NoError(t, err)
	shown := program.FindStringSubmatch(string(page))
	require.NotNil(t, shown)
	source := shown[1]
	replace := func(old, by string) {
		require.Contains(t, source, old)
		source = strings.ReplaceAll(source, old, by)
	}
	nodes := redistest.Start(t, 3)
	for i, url := range redistest.URLs(nodes) {
		replace([]string{"redis://127.0.0.1:7001", "redis://127.0.0.1:7002", "redis://127.0.0.1:7003"}[i], url)
	}
	// A port that is free now may be another process's when the program listens. The path of a socket may
	// not be long, so it is not in the test's folder.
	place, err := os.MkdirTemp("", "redlock")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(place) }()
	socket := filepath.Join(place, "metrics")
	replace(`"tcp", "127.0.0.1:9464"`, fmt.Sprintf("%q, %q", "unix", socket))
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()

	folder := t.TempDir()
	file, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	service := exec.CommandContext(t.Context(), binary)
	var said strings.Builder
	service.Stderr = &said
	require.NoError(t, service.Start())
	require.Eventually(t, func() bool {
		answer, err := client.Get("http://program/metrics") //nolint:noctx // the client has a timeout
		if err != nil {
			return false // it does not listen yet
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		return err == nil && strings.Contains(string(text), "\nredlock_locks_held 1\n") && strings.Contains(string(text), "redlock_releases_total")
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, service.Process.Signal(os.Interrupt))
	require.NoError(t, service.Wait(), "%s", &said)
	redistest.NoKeys(t, nodes, 2*time.Second)
}
