package examine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/visit"
)

// scanPageSize is how many keys one SCAN asks for: so few that other clients of the server do not
// wait for long.
const scanPageSize = 500

// Keys passes the keys of a node that match a pattern of SCAN MATCH to page, some hundred at a time, and
// returns the first error of page. The result is no snapshot: a key may be passed twice, and one that is
// created or deleted meanwhile may be missing. Of a Cluster it scans every master.
//
// It ends with ctx, with the node, and when a server does not answer in time. It needs the right to SCAN.
func Keys(ctx context.Context, n door.Node, pattern string, page func(keys []string) error) error {
	servers, err := visit.Servers(ctx, n)
	switch {
	case err != nil:
		return err
	case servers.Unserved > 0:
		return fmt.Errorf("%d slots are unassigned, and their keys cannot be scanned", servers.Unserved)
	}
	for _, s := range servers.All {
		err := scanServer(ctx, s, pattern, page)
		switch {
		case err != nil && servers.Cluster:
			return fmt.Errorf("%s: %w", s.Config.Label, err)
		case err != nil:
			return err
		}
	}
	return nil
}

func scanServer(ctx context.Context, s node.Master, pattern string, page func(keys []string) error) error {
	conn, err := visit.Dial(ctx, s)
	if err != nil {
		return err
	}
	defer conn.Close()
	return scan(ctx, conn, page, "MATCH", pattern)
}

// scanForLocks looks through the keys of the database until it finds one that may be a live lock:
// a key with a TTL, outside of our own namespace.
func scanForLocks(ctx context.Context, conn *visit.Conn, found *Diagnosis) error {
	err := scan(ctx, conn, func(keys []string) error {
		// The keys of a page are asked in one flush. A key that has expired meanwhile answers -2,
		// which is no lock.
		err := conn.Run(ctx, ttlCalls(keys, found)...)
		if err == nil && (found.ScanDenied != "" || found.LiveKey != "") {
			return errKnown
		}
		return err
	})
	var denied deniedError
	switch {
	case errors.As(err, &denied): // a missing right must not fail the whole examination
		noteScanDenied(found, denied.error)
	case err == nil, errors.Is(err, errKnown):
		// One live key decides the question. After a denied query the scan is incomplete.
		found.Scanned = err == nil || found.LiveKey != ""
	default:
		return err
	}
	return nil
}

// errKnown ends a scan whose result is known.
var errKnown = errors.New("the result is known")

// scan passes the keys of all pages to page, and returns its first error.
func scan(ctx context.Context, conn *visit.Conn, page func(keys []string) error, match ...any) error {
	for cursor := "0"; ; {
		next, keys, err := readPage(ctx, conn, append([]any{cursor, "COUNT", scanPageSize}, match...))
		if err != nil {
			return fmt.Errorf("scanning the keys: %w", err)
		}
		if len(keys) > 0 {
			err = page(keys)
		}
		// Only the cursor 0 ends a scan: a page may be empty before that.
		if err != nil || next == "0" {
			return err
		}
		cursor = next
	}
}

// readPage reads the keys of one page, and the cursor of the page after it. The scan as a whole may take as
// long as the server answers.
func readPage(ctx context.Context, conn *visit.Conn, args []any) (next string, keys []string, err error) {
	err = conn.Run(ctx, visit.Call{Name: "SCAN", Args: args, Take: func(reply any, err error) error {
		if err != nil {
			return deniedError{err}
		}
		parts, err := redis.Values(reply, nil)
		if err == nil {
			_, err = redis.Scan(parts, &next, &keys)
		}
		if err != nil {
			return deniedError{errUnexpected} // the reply itself is not shown: it may be a value
		}
		return nil
	}})
	return next, keys, err
}

// deniedError is a server's answer in place of keys.
type deniedError struct{ error }

// Unwrap returns the server's error.
func (e deniedError) Unwrap() error { return e.error }

// ttlCalls returns the queries for how long the keys have left. Reserved keys are skipped: they
// are no locks.
func ttlCalls(keys []string, found *Diagnosis) []visit.Call {
	var calls []visit.Call
	for _, key := range keys {
		if strings.HasPrefix(key, command.Reserved) {
			continue
		}
		calls = append(calls, visit.Call{Name: "PTTL", Args: []any{key}, Take: func(reply any, err error) error {
			ms, ok := reply.(int64)
			switch {
			case err != nil:
				noteScanDenied(found, err)
			case !ok:
				noteScanDenied(found, errUnexpected) // the reply itself is not shown: it may be a value
			// A key without a TTL (-1) is not a lock of this library. Any client may have chosen
			// the name, so it is made printable before it reaches a report.
			case ms >= 0 && found.LiveKey == "":
				found.LiveKey, found.LiveKeyTTL = oneline.Printable(key), time.Duration(min(ms, maxMillis))*time.Millisecond
			}
			return nil
		}})
	}
	return calls
}

// maxMillis is the longest Duration in milliseconds. Redis accepts a longer TTL.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

var errUnexpected = errors.New("unexpected reply")

// noteScanDenied keeps the first error. Without the right to PTTL every key of a page has the same
// one.
func noteScanDenied(found *Diagnosis, err error) {
	if err != nil && found.ScanDenied == "" {
		found.ScanDenied = oneline.Printable(err.Error())
	}
}
