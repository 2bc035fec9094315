//go:build unix

package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/contenders"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	onceProcesses = 5
	onceRounds    = 100
	onceApart     = 50 * time.Millisecond
	onceMinHold   = 10 * time.Minute // more than all rounds take: a process may be late
)

// runOnce is a process that follows the guide's recipe for jobs that must run once. It tries at the
// beginning of each round, as the other processes do, and releases at once.
func (c contention) runOnce(ctx context.Context, log *contenders.Log) {
	l, err := redlock.Open(c.URLs, redlock.WithOwner(fmt.Sprintf("process-%d", c.Process)), redlock.WithNodeTimeout(patience))
	if err != nil {
		panic(err)
	}
	name := strconv.Itoa(c.Process)
	for round := range onceRounds {
		contenders.Idle(ctx, c.First+time.Duration(round)*onceApart-contenders.Uptime())
		job := []string{fmt.Sprintf("%s%d", c.Names[0], round)}
		from := contenders.Uptime()
		lock, err := l.TryAcquire(ctx, job[0], c.TTL, redlock.WithMinHold(onceMinHold))
		if err != nil {
			log.Judge(name, err, redlock.ErrHeld)
			continue
		}
		log.Held(contenders.Hold{Contender: name, Names: job, From: from, To: contenders.Uptime()})
		log.Failed(name, lock.Release(ctx))
	}
	log.Held(contenders.Hold{Contender: name, Names: []string{"all rounds"}})
	log.Failed("close", closeWithin(l, patience))
}

// The recipe for jobs that must run once: if five processes try at the same instant, one of them
// gets the lock in each round.
func TestAJobThatMustRunOnceRunsOnce(t *testing.T) {
	nodes := masters(t, 3)
	first := contenders.Uptime() + 2*time.Second // all processes have started by then
	given := make([]contention, onceProcesses)
	for i := range given {
		given[i] = contention{
			URLs: redistest.URLs(nodes), Names: []string{"once/"}, TTL: time.Minute,
			Process: i, First: first,
		}
	}
	all := contenders.Start(t, given...)
	all.Until(t, "all rounds are over", func(since []contenders.Hold) bool {
		over := 0
		for _, h := range since {
			if h.Names[0] == "all rounds" {
				over++
			}
		}
		return over == onceProcesses
	}, nil)
	all.Stop(t)
	require.Empty(t, all.Faults())
	winners := map[string][]string{}
	for _, h := range all.Holds() {
		if strings.HasPrefix(h.Names[0], "once/") {
			winners[h.Names[0]] = append(winners[h.Names[0]], h.Contender)
		}
	}
	for round := range onceRounds {
		job := fmt.Sprintf("once/%d", round)
		require.Len(t, winners[job], 1, "%s: won by %v", job, winners[job])
	}
}
