// Command handoff shows a lock that moves from one process to another without ever being free.
//
// This process takes the lock, as a server does that accepts an order, and gives it up by Detach: what is left of it is a claim, a
// short text. It starts a second process and writes the claim to its standard input; a queue would do, if it is one that keeps secrets,
// for who has the claim has the lock. The worker makes a lock of it by Resume, which counts anew how long it is still valid, extends it
// while it works, and releases it. Somebody else who wants the lock all that time gets it only then.
//
//	go run ./examples/handoff                  three masters inside of this process
//	go run ./examples/handoff --nodes URLs     yours, with commas between them
//
// Exit status: 0 when it went as told, 1 when it did not, 2 for wrong usage.
package main

import (
	"bytes"
	"context"
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
	lease = 10 * time.Second // the worker must have begun by then
	work  = 300 * time.Millisecond
)

// What the second process finds in its environment: that it is one, and the masters' URLs; and where its work goes.
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

	server, err := redlock.Open(s.URLs, redlock.WithOwner("server"))
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
	s.Say("  server  gives it up: what is left is a %v", claim)

	got := make(chan error, 1)
	go func() { got <- wait(ctx, s.URLs, result) }()
	if err := handOver(ctx, claim, s, result); err != nil {
		return err
	}
	if err := <-got; err != nil {
		return err
	}
	s.Say("  other   got it, and found the work done.")
	return nil
}

// handOver starts the worker with the claim, and waits for its end.
func handOver(ctx context.Context, claim redlock.Claim, s *show.Stage, result string) error {
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
	cmd.Stdin = bytes.NewReader(text) // no argument: those are for all to see
	said, err := cmd.CombinedOutput()
	s.Say("%s", bytes.TrimRight(said, "\n"))
	return err
}

// wait wants the lock all the time, as any process might. Who gets it must find the result.
func wait(ctx context.Context, urls []string, result string) error {
	other, err := redlock.Open(urls, redlock.WithOwner("other"))
	if err != nil {
		return err
	}
	defer func() { _ = other.Close(ctx) }()
	return other.Do(ctx, order, lease, func(context.Context, *redlock.Lock) error {
		_, err := os.Stat(result)
		return err
	})
}

// worker is the second process: it reads a claim and works under its lock.
func worker(urls []string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var claim redlock.Claim
	if err := claim.UnmarshalText(text); err != nil {
		return err
	}
	locker, err := redlock.Open(urls)
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close(ctx) }()
	lock, err := locker.Resume(ctx, claim, redlock.WithAutoExtend())
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "  worker  (process %d) goes on with it\n", os.Getpid())
	select {
	case <-time.After(work):
	case <-lock.Context().Done():
		return context.Cause(lock.Context())
	}
	if err := os.WriteFile(os.Getenv(resultAt), []byte("done\n"), 0o600); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "  worker  has finished, and releases it")
	return lock.Release(ctx)
}
