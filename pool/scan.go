package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// scanPageSize is how many keys one SCAN asks for: so few that other clients of the server do not
// wait for long.
const scanPageSize = 500

// scanForLocks looks through the keys of the database until it finds one that may be a live lock:
// a key with a TTL, outside of our own namespace. It ends with ctx, with the node, and when a
// page takes longer than the dial timeout.
func (n *Node) scanForLocks(ctx context.Context, s *rawConn, found *command.Diagnosis) error {
	// The scan may take long, so it ends with the node as well as with ctx. Aborting the
	// connection ends a query that is blocked.
	stop := context.AfterFunc(n.life, s.abort) //nolint:contextcheck // both end it
	defer stop()
	for cursor := "0"; ; {
		next, err := n.scanPage(ctx, s, cursor, found)
		switch {
		case err != nil:
			return fmt.Errorf("pool: scanning the keys: %w", err)
		// One live key decides the question. After a denied query the scan is incomplete, and
		// Scanned remains false.
		case found.ScanDenied != "" || found.LiveKey != "":
			found.Scanned = found.LiveKey != ""
			return nil
		// Only the cursor 0 ends a scan: a page may be empty before that.
		case next == "0":
			found.Scanned = true
			return nil
		}
		cursor = next
	}
}

// scanPage checks the next keys, and returns the cursor of the page after them.
func (n *Node) scanPage(
	ctx context.Context, s *rawConn, cursor string, found *command.Diagnosis,
) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	// A blocked read ends only by closing the connection, so the timeout aborts it.
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	// Each page has a bound of its own. The scan as a whole may take as long as the server answers.
	var keys []string
	err = s.run([]step{{"SCAN", []any{cursor, "COUNT", scanPageSize}, func(reply any, err error) error {
		parts, err := redis.Values(reply, err)
		if err == nil {
			_, err = redis.Scan(parts, &next, &keys)
		}
		// The error is noted and not returned: a missing right must not fail the whole examination.
		noteScanDenied(found, err)
		return nil
	}}})
	if err == nil && len(keys) > 0 {
		// The keys of a page are asked in one flush. A key that has expired meanwhile answers -2,
		// which is no lock.
		err = s.run(ttlSteps(keys, found))
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("timeout or end of the context before the server answered")
	}
	return next, err
}

// ttlSteps returns the queries for how long the keys have left. Reserved keys are skipped: they
// are no locks.
func ttlSteps(keys []string, found *command.Diagnosis) []step {
	var steps []step
	for _, key := range keys {
		if strings.HasPrefix(key, command.Reserved) {
			continue
		}
		steps = append(steps, step{"PTTL", []any{key}, func(reply any, err error) error {
			ms, ok := reply.(int64)
			switch {
			case err != nil:
				noteScanDenied(found, err)
			case !ok:
				noteScanDenied(found, errProtocol) // the reply itself is not shown: it may be a value
			// A key without a TTL (-1) is not a lock of this library. Any client may have chosen
			// the name, so it is made printable before it reaches a report.
			case ms >= 0 && found.LiveKey == "":
				found.LiveKey, found.LiveKeyTTL = oneline.Printable(key), newKeyState("string", key, ms).TTL
			}
			return nil
		}})
	}
	return steps
}

// noteScanDenied keeps the first error. Without the right to PTTL every key of a page has the same
// one.
func noteScanDenied(found *command.Diagnosis, err error) {
	if err != nil && found.ScanDenied == "" {
		found.ScanDenied = shownError(err)
	}
}
