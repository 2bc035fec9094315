package main

import (
	"context"
	"errors"
	"flag"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// farewell bounds what is waited for, on the way out, of what a dead node still owes.
// What it owes dies by its TTL.
const farewell = 250 * time.Millisecond

// coldTimeout is how long a node's answer counts. It is longer than the library's
// default because every invocation begins without connections: the first answer
// takes a dial, and perhaps a TLS handshake, before it.
const coldTimeout = 2 * time.Second

// nodesFlag defines --nodes.
func nodesFlag(f *flag.FlagSet) *string {
	return f.String("nodes", "", "the masters' `URLs`, with commas between them (default: $REDLOCK_NODES)")
}

// guardFlag defines --guard.
func guardFlag(f *flag.FlagSet) *time.Duration {
	return f.Duration("guard", 0, "the restart guard's `maxTTL`, the same for all clients of the masters: one that may\n"+
		"have forgotten locks does not vote for so long (default: no guard)")
}

// guarding is the guard's option; none for a maxTTL of 0.
func guarding(maxTTL time.Duration) []redlock.Option {
	if maxTTL == 0 {
		return nil
	}
	return []redlock.Option{redlock.WithRestartGuard(maxTTL)}
}

var (
	errNoNodes = errors.New("no masters are given by --nodes or REDLOCK_NODES; masters inside of this process, " +
		"as the demo has them, would end with it, and a lock on them would be a lie")
	errEmptyNode = errors.New("there is an empty URL between the commas of --nodes or REDLOCK_NODES")
)

// nodes reads the list of masters: the flag, or else the variable.
func (c *call) nodes(given string) ([]string, error) {
	if given == "" {
		given = c.getenv("REDLOCK_NODES")
	}
	if strings.TrimSpace(given) == "" {
		return nil, errNoNodes
	}
	urls := strings.Split(given, ",")
	for i := range urls {
		if urls[i] = strings.TrimSpace(urls[i]); urls[i] == "" {
			return nil, errEmptyNode
		}
	}
	return urls, nil
}

// closeSoon ends a locker in the time that a person does not notice.
func closeSoon(l *redlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = l.Close(ctx) // what it could not undo was told by the release, and expires
}
