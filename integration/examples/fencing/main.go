// Command fencing shows what a fencing token protects from, on a real database.
//
// Two workers make deposits to one account. Each reads the balance under a lock, adds to it, and
// writes it back. One worker is paused between the reading and the writing, for longer than its
// lease: by a garbage collection, a suspended machine or a slow disk. No lock service can prevent
// such a pause, and the worker cannot notice it in time. Meanwhile the other worker writes. Without
// a check the paused worker then overwrites that deposit, and money is lost. With the check in the
// database's own transaction the paused worker is turned away and starts again.
//
//	go run ./examples/fencing                  on three servers inside this process
//	go run ./examples/fencing --nodes URLs     on your servers; commas separate the URLs
//
// Exit status: 0 if the scenario ended as described, 1 if it did not, 2 for wrong usage.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

func main() { os.Exit(show.Run("fencing", play, os.Args[1:], os.Stdout, os.Stderr)) }

// play runs the scenario without the check and with it. It returns an error if one of them ended
// unexpectedly.
func play(ctx context.Context, s *show.Stage) error {
	dir, err := os.MkdirTemp("", "fencing")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, checks := range []bool{false, true} {
		b, err := openBank(ctx, filepath.Join(dir, fmt.Sprintf("checks-%t.db", checks)), checks)
		if err != nil {
			return err
		}
		err = (&scenario{Stage: s, bank: b}).play(ctx)
		if closeErr := b.db.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openWorker returns a worker with its own Locker, as in its own process.
func openWorker(name string, urls []string) (*worker, error) {
	l, err := redlock.Open(urls, redlock.WithFencing(), redlock.WithOwner(name))
	if err != nil {
		return nil, err
	}
	return &worker{name: name, locker: l}, nil
}
