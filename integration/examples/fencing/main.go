// Command fencing shows what a fencing token is good for, on a real database.
//
// Two workers take money in for one account: each reads the balance under a lock, adds to it, and writes it back. One of them is paused
// between the reading and the writing, for longer than its lease: by a garbage collection, a suspended machine, a slow disk. No lock
// service can prevent that, nor can the worker notice in time. When it goes on, the other has written. Without a check it overwrites
// that: money is lost. With the check in the database's own transaction it is turned away, and begins again.
//
//	go run ./examples/fencing                  three masters inside of this process
//	go run ./examples/fencing --nodes URLs     yours, with commas between them
//
// Exit status: 0 when it went as told, 1 when it did not, 2 for wrong usage.
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

// play plays the story twice and says whether it went as it should.
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
		err = (&story{Stage: s, bank: b}).play(ctx)
		if closeErr := b.db.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openWorker makes a worker with a Locker of its own, as another process would have.
func openWorker(name string, urls []string) (*worker, error) {
	l, err := redlock.Open(urls, redlock.WithFencing(), redlock.WithOwner(name))
	if err != nil {
		return nil, err
	}
	return &worker{name: name, locker: l}, nil
}
