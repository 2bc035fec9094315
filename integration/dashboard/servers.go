package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// example is the program that Prometheus scrapes.
const example = "github.com/quorumlock/go-redlock/otelredlock/examples/prometheus"

// scrapeEvery is the scrape interval.
const scrapeEvery = time.Second

var errNoPrometheus = errors.New("prometheus is not in PATH: install it (on Debian and Ubuntu: apt-get install prometheus)")

func findPrometheus() (string, error) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		return "", errNoPrometheus
	}
	return path, nil
}

// server is a child process.
type server struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // read it only after over is closed
	over   chan struct{}
	err    error // why the process ended; read it only after over is closed
}

func start(ctx context.Context, path string, args ...string) (*server, error) {
	s := &server{cmd: exec.CommandContext(ctx, path, args...), over: make(chan struct{})}
	s.cmd.Stderr = &s.stderr
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = 10 * time.Second
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.over)
		s.err = s.cmd.Wait()
	}()
	return s, nil
}

// wait waits until the process ends by itself.
func (s *server) wait() error {
	<-s.over
	if s.err != nil {
		return s.failure()
	}
	return nil
}

// stop ends the process.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
	<-s.over
}

// failure stops the process, and returns an error with its output on standard error.
func (s *server) failure() error {
	s.stop()
	return fmt.Errorf("%s: %w: %s", filepath.Base(s.cmd.Path), s.err, bytes.TrimSpace(s.stderr.Bytes()))
}

// startWorkload builds the example and starts it.
func startWorkload(ctx context.Context, folder, address string, long time.Duration) (*server, error) {
	binary := filepath.Join(folder, "example")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, example).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, bytes.TrimSpace(out))
	}
	return start(ctx, binary, "--listen", address, "--for", long.String())
}

// startPrometheus starts a Prometheus that scrapes only the target and stores its data in the folder.
func startPrometheus(ctx context.Context, path, folder, target string) (_ *server, url string, err error) {
	config := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: %v}\nscrape_configs:\n  - job_name: billing\n    static_configs: [{targets: ['%s']}]\n",
		scrapeEvery, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := start(ctx, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	return s, "http://" + address, err
}

// freeAddress returns an address that is free at the moment.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
