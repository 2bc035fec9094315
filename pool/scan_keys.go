package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// scanKeys scans all masters, one after the other.
func (cl *cluster) scanKeys(ctx context.Context, pattern string, page func(keys []string) error) error {
	if err := cl.waitTopology(ctx); err != nil {
		return err
	}
	all, unserved := cl.masters()
	if unserved > 0 {
		return fmt.Errorf("pool: %s: %d slots are unassigned, and their keys cannot be scanned", cl.node.cfg.Name, unserved)
	}
	for _, sh := range all {
		if err := sh.node.scanServer(ctx, pattern, page); err != nil {
			return fmt.Errorf("%s: %w", sh.address, err)
		}
	}
	return nil
}

// scanServer scans one server.
func (n *Node) scanServer(ctx context.Context, pattern string, page func(keys []string) error) error {
	s, err := n.dialReady(ctx)
	if err != nil {
		return withoutContextError(err)
	}
	defer s.close()
	for cursor := "0"; ; {
		next, keys, err := n.scanMatch(ctx, s, cursor, pattern)
		if err == nil && len(keys) > 0 {
			err = page(keys)
		}
		// Only the cursor 0 ends a scan: a page may be empty before that.
		if err != nil || next == "0" {
			return err
		}
		cursor = next
	}
}

// scanMatch reads the keys of one page, and returns the cursor of the page after it.
func (n *Node) scanMatch(ctx context.Context, s *rawConn, cursor, pattern string) (next string, keys []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	// A blocked read ends only by closing the connection, so the timeout aborts it.
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	err = s.run([]step{{"SCAN", []any{cursor, "MATCH", pattern, "COUNT", scanPageSize}, func(reply any, err error) error {
		if err != nil {
			return errors.New(shownError(err))
		}
		parts, err := redis.Values(reply, nil)
		if err == nil {
			_, err = redis.Scan(parts, &next, &keys)
		}
		if err != nil {
			return errProtocol // the reply itself is not shown: it may be a value
		}
		return nil
	}}})
	switch {
	case err == nil:
		return next, keys, nil
	case ctx.Err() != nil:
		err = errors.New("timeout or end of the context before the server answered")
	}
	return "", nil, fmt.Errorf("pool: scanning the keys: %s", oneline.Text(err))
}
