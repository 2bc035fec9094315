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
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/embedded"
	"github.com/quorumlock/go-redlock/redlock"
)

// longest bounds the whole show.
const longest = time.Minute

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("fencing", flag.ContinueOnError)
	f.SetOutput(errs)
	nodes := f.String("nodes", "", "the masters' `URLs`, with commas between them (default: three inside of this process)")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if err := show(ctx, *nodes, out); err != nil {
		_, _ = fmt.Fprintln(errs, "fencing:", err)
		return 1
	}
	return 0
}

// show plays the story twice and says whether it went as it should.
func show(ctx context.Context, nodes string, out io.Writer) error {
	urls := strings.Split(nodes, ",")
	if nodes == "" {
		own, stop, err := ownMasters(3)
		if err != nil {
			return err
		}
		defer stop()
		urls = own
	}
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
		err = (&story{bank: b, urls: urls, out: out}).play(ctx)
		if closeErr := b.db.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownMasters starts n of them in this process: enough to show it, not to lock by.
func ownMasters(n int) (urls []string, stop func(), err error) {
	var masters []*embedded.Master
	stop = func() {
		for _, m := range masters {
			m.Close()
		}
	}
	for i := range n {
		m, err := embedded.Start(fmt.Sprintf("master-%d", i+1))
		if err != nil {
			stop()
			return nil, nil, err
		}
		masters, urls = append(masters, m), append(urls, m.URL())
	}
	return urls, stop, nil
}

// openWorker makes a worker with a Locker of its own, as another process would have.
func openWorker(name string, urls []string) (*worker, error) {
	l, err := redlock.Open(urls, redlock.WithFencing(), redlock.WithOwner(name))
	if err != nil {
		return nil, err
	}
	return &worker{name: name, locker: l}, nil
}
