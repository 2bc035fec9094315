// Command handoff shows a lock that moves from one process to another without ever being free.
//
// This process acquires the lock, as a server that accepts an order does, and detaches it. Detach
// returns a claim, which is a short text. The process starts a second process, the worker, and
// writes the claim to its standard input. A message queue can also carry the claim, if it keeps
// secrets and delivers it once: a process with the claim has the lock. Two processes that resume copies of it both hold
// the lock, and no fence tells them apart. The worker turns the claim into a lock by Resume,
// which computes a new validity. It extends the lock while it works, and releases it. A third
// client waits for the lock all the time, and gets it only then.
//
//	go run ./examples/handoff                  on three servers inside this process
//	go run ./examples/handoff --nodes URLs     on your servers; commas separate the URLs
//
// Exit status: 0 if the scenario ended as described, 1 if it did not, 2 for wrong usage.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	order = "example:handoff:order/7"
	lease = 30 * time.Second // the worker must resume the lock within it
	work  = 300 * time.Millisecond

	nodeTimeout = 5 * time.Second // the example may run on a busy machine
)

// Environment variables of the second process: the URLs of the servers, and the path of its result.
const (
	nodesOf  = "HANDOFF_NODES"
	resultAt = "HANDOFF_RESULT"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	nodes := os.Getenv(nodesOf)
	if nodes == "" {
		return show.Run("handoff", play, args, out, errs)
	}
	if err := worker(strings.Split(nodes, ","), os.Stdin, out); err != nil {
		_, _ = fmt.Fprintln(errs, "worker:", err)
		return 1
	}
	return 0
}

// play is the first process.
func play(ctx context.Context, s *show.Stage) error {
	dir, err := os.MkdirTemp("", "handoff")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result := filepath.Join(dir, "result")

	server, err := redlock.Open(s.URLs, redlock.WithOwner("server"), redlock.WithNodeTimeout(nodeTimeout))
	if err != nil {
		return err
	}
	defer func() { _ = server.Close(ctx) }()
	lock, err := server.Acquire(ctx, order, lease)
	if err != nil {
		return err
	}
	s.Say("  server  (process %d) holds the order", os.Getpid())
	claim, err := lock.Detach()
	if err != nil {
		return err
	}
	s.Say("  server  detaches the lock, and has a %v", claim)

	got := make(chan error, 1)
	go func() { got <- wait(ctx, s.URLs, result) }()
	if err := runWorker(ctx, claim, s, result); err != nil {
		return err
	}
	if err := <-got; err != nil {
		return err
	}
	s.Say("  other   acquired the lock, and found the work done.")
	return nil
}

// runWorker starts the worker with the claim, and waits for its end.
func runWorker(ctx context.Context, claim redlock.Claim, s *show.Stage, result string) error {
	text, err := claim.MarshalText()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), nodesOf+"="+strings.Join(s.URLs, ","), resultAt+"="+result)
	cmd.Stdin = bytes.NewReader(text) // not an argument: every user of the machine can read arguments
	said, err := cmd.CombinedOutput()
	s.Say("%s", bytes.TrimRight(said, "\n"))
	return err
}

// wait waits for the lock like any other client. When it gets the lock the result must exist.
func wait(ctx context.Context, urls []string, result string) error {
	other, err := redlock.Open(urls, redlock.WithOwner("other"), redlock.WithNodeTimeout(nodeTimeout))
	if err != nil {
		return err
	}
	defer func() { _ = other.Close(ctx) }()
	return other.Do(ctx, order, lease, func(context.Context, *redlock.Lock) error {
		_, err := os.Stat(result)
		return err
	})
}

// worker is the second process. It reads a claim and works under its lock.
func worker(urls []string, in io.Reader, out io.Writer) (err error) {
	ctx := context.Background()
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var claim redlock.Claim
	if err := claim.UnmarshalText(text); err != nil {
		return err
	}
	locker, err := redlock.Open(urls, redlock.WithNodeTimeout(nodeTimeout))
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close(ctx) }()
	lock, err := locker.Resume(ctx, claim, redlock.WithAutoExtend())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release(ctx)) }() // or it would be extended until this process ends
	_, _ = fmt.Fprintf(out, "  worker  (process %d) continues with the lock\n", os.Getpid())
	select {
	case <-time.After(work):
	case <-lock.Context().Done():
		return context.Cause(lock.Context())
	}
	if err := os.WriteFile(os.Getenv(resultAt), []byte("done\n"), 0o600); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "  worker  has finished, and releases the lock")
	return nil
}
