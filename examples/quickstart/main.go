package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("the job failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	locker, err := redlock.Open([]string{"redis://127.0.0.1:7001", "redis://127.0.0.1:7002", "redis://127.0.0.1:7003"},
		redlock.WithLogger(slog.Default()))
	if err != nil {
		return err // a wrong URL or option; Open waits for no connection
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()

	limited, cancel := context.WithTimeout(ctx, 10*time.Second) // bounds the wait and the work
	defer cancel()
	return locker.Do(limited, "invoice/42", 30*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
		slog.Info("the lock is held", "lock", lock)
		return settle(ctx, 42) // ctx ends before another process can hold the lock
	})
}

func settle(ctx context.Context, invoice int) error { return ctx.Err() }
