package examine

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// KeyPrefix and random characters form the key on which rights are probed.
const KeyPrefix = command.Reserved + "doctor:"

// Question says how nodes are examined.
type Question struct {
	// Key does not exist, and has KeyPrefix behind the prefix of the locks' keys. Rights are probed on it
	// and, with fencing, on its Counters.
	Key      string
	Counters []string
	Guard    *guard.Settings // the restart guard; nil without
	Scan     bool            // also scan all keys for live locks
	Timeout  time.Duration   // of everything but the scan, which takes as long as the server answers
	Clock    clock.Clock
}
