// Package payments pays each invoice once: with a lock, with fences in PostgreSQL, and by a provider that knows
// idempotency keys. docs/payments.md explains it.
package payments

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/redlock"
)

// Schema creates the table of the payments. A service has it in its migrations, beside Fences.Schema.
const Schema = `CREATE TABLE IF NOT EXISTS payment (
  invoice     BIGINT PRIMARY KEY,
  cents       BIGINT NOT NULL,
  intended_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),
  result      TEXT -- NULL until it is known
)`

// keyLife is shorter than the time for which the provider remembers a key. Here that is a day.
const keyLife = 23 * time.Hour

// A Provider charges cards.
type Provider interface {
	// Charge returns the number of the charge, or that the card was refused. Of all calls with one key the provider
	// executes the first. It answers the others by the same result. After an error the outcome is unknown.
	Charge(ctx context.Context, key string, cents int64) (result string, err error)
}

// Service pays invoices. Any number of processes may run it.
type Service struct {
	Locker   *redlock.Locker // with redlock.WithFencing
	Fences   *sqlfence.Fences
	Pool     *pgxpool.Pool
	Provider Provider
	TTL      time.Duration // of the locks: how long an invoice waits after its holder has crashed
}

// Pay pays an invoice, unless it is paid. It may be called again after any error and any crash.
func (s *Service) Pay(ctx context.Context, invoice, cents int64) error {
	name := fmt.Sprintf("invoice/%d", invoice) // of the lock, and the idempotency key
	return s.Locker.Do(ctx, name, s.TTL, func(ctx context.Context, lock *redlock.Lock) error {
		var p payment
		err := s.inTx(ctx, lock, func(tx pgx.Tx) error { // transaction 1
			var err error
			p, err = intend(ctx, tx, invoice, cents)
			return err
		})
		switch {
		case err != nil:
			return err
		case p.cents != cents:
			return fmt.Errorf("payments: %s: %d cents are asked for, and an earlier call asked for %d", name, cents, p.cents)
		case p.result != nil:
			return nil // an earlier holder has finished
		case !p.keyLives:
			return fmt.Errorf("payments: %s: the provider may have forgotten the key: look at its list of charges", name)
		}

		result, err := s.Provider.Charge(ctx, name, cents) // in no transaction
		if err != nil {
			return fmt.Errorf("payments: %s: the outcome is unknown, so call Pay again: %w", name, err)
		}

		return s.inTx(ctx, lock, func(tx pgx.Tx) error { // transaction 2
			_, err := tx.Exec(ctx, "UPDATE payment SET result = $2 WHERE invoice = $1", invoice, result)
			return err
		})
	})
}

// payment is a row of the table.
type payment struct {
	cents    int64
	result   *string
	keyLives bool
}

// intend writes that the invoice is to be paid, unless an earlier holder has. It returns the amount of the first
// intent: an idempotency key stands for one request.
func intend(ctx context.Context, tx pgx.Tx, invoice, cents int64) (p payment, err error) {
	_, err = tx.Exec(ctx, "INSERT INTO payment (invoice, cents) VALUES ($1, $2) ON CONFLICT DO NOTHING", invoice, cents)
	if err != nil {
		return p, err
	}
	err = tx.QueryRow(ctx, "SELECT cents, result, intended_at > now() - $2::interval FROM payment WHERE invoice = $1",
		invoice, keyLife).Scan(&p.cents, &p.result, &p.keyLives)
	return p, err
}

// inTx calls fn in a transaction that has checked the fence. While the lock is held, it repeats what the database
// rejected because of another transaction.
func (s *Service) inTx(ctx context.Context, lock *redlock.Lock, fn func(tx pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
			if err := sqlfence.CheckPgx(ctx, s.Fences, tx, lock); err != nil { // before all other statements
				return err
			}
			return fn(tx)
		})
		if !sqlfence.Retryable(err) || ctx.Err() != nil || try == 5 {
			return err
		}
		slog.Warn("the transaction is repeated", "error", err)
	}
}
