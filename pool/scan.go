package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// scanPageSize is how many keys one SCAN visits: few enough not to delay other clients.
const scanPageSize = 500

// scanForLocks scans the keys of the database until it finds one that may be a lock: a key with a
// TTL outside of our own namespace. It ends with ctx, and if a page takes longer than the dial
// timeout.
func (n *Node) scanForLocks(ctx context.Context, s *rawConn, found *wire.Diagnosis) error {
	stop := context.AfterFunc(n.life, s.abort) //nolint:contextcheck // both end it
	defer stop()
	for cursor := "0"; ; {
		next, err := n.scanPage(ctx, s, cursor, found)
		switch {
		case err != nil:
			return fmt.Errorf("pool: looking through the keys: %w", err)
		case found.ScanDenied != "" || found.LiveKey != "":
			found.Scanned = found.LiveKey != ""
			return nil
		case next == "0":
			found.Scanned = true
			return nil
		}
		cursor = next
	}
}

// scanPage scans the next keys, and returns the next cursor.
func (n *Node) scanPage(ctx context.Context, s *rawConn, cursor string, found *wire.Diagnosis) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	var keys []string
	err = s.run([]step{{"SCAN", []any{cursor, "COUNT", scanPageSize}, func(reply any, err error) error {
		parts, err := redis.Values(reply, err)
		if err == nil {
			_, err = redis.Scan(parts, &next, &keys)
		}
		noteScanDenied(found, err)
		return nil
	}}})
	if err == nil && len(keys) > 0 {
		err = s.run(ttlSteps(keys, found))
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("ended before the server had answered")
	}
	return next, err
}

// ttlSteps reads the TTLs of the keys.
func ttlSteps(keys []string, found *wire.Diagnosis) []step {
	var steps []step
	for _, key := range keys {
		if strings.HasPrefix(key, wire.Reserved) {
			continue
		}
		steps = append(steps, step{"PTTL", []any{key}, func(reply any, err error) error {
			ms, ok := reply.(int64)
			switch {
			case err != nil:
				noteScanDenied(found, err)
			case !ok:
				noteScanDenied(found, errProtocol) // the reply may be a value, which is not shown
			case ms >= 0 && found.LiveKey == "":
				found.LiveKey, found.LiveKeyTTL = wire.Printable(key), newKeyState("string", key, ms).TTL
			}
			return nil
		}})
	}
	return steps
}

func noteScanDenied(found *wire.Diagnosis, err error) {
	if err != nil && found.ScanDenied == "" {
		found.ScanDenied = shownError(err)
	}
}
