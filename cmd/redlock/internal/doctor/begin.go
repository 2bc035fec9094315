package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// begin has the nodes begin the restart guard, and waits until all of them vote.
func (d *doctorCommand) begin(ctx context.Context, c *cli.Invocation, locker *redlock.Locker, nodes cli.NodeList, maxTTL time.Duration) int {
	ctx, stop := cli.Listen().Until(ctx)
	defer stop()
	report, err := doctor.Diagnose(ctx, locker)
	if err != nil {
		return c.Refused(err)
	}
	if report.Failed() {
		exit := d.print(c, report, nil)
		c.Fail(nil, "the guard was not begun, and nothing was changed: see the errors above")
		return exit
	}
	if !allVote(report) {
		c.Say("the nodes are quarantined for %v; clients without the guard are refused when they connect", maxTTL)
		// A lock with a short TTL needs another node timeout than a query of the nodes.
		client, err := c.Open(nodes, maxTTL, cli.NodeTimeout(beginTTL(maxTTL)), redlock.WithOwner("doctor"))
		if err != nil {
			return c.Misused("%v", err)
		}
		defer cli.CloseSoon(client)
		if report, err = whenAllVote(ctx, locker, client, maxTTL); err != nil {
			c.Fail(err, "the guard is not in force on all nodes yet: %v; run the same command again to continue", err)
			if errors.Is(err, redlock.ErrQuarantined) {
				return cli.ExitUnavailable
			}
			return cli.Refusal(err)
		}
	}
	exit := d.print(c, report, nil)
	if exit == cli.ExitFailed {
		c.Fail(nil, "the guard is in force on all nodes, but an error was found since")
	}
	if exit == cli.ExitOK && !c.JSON {
		_, _ = fmt.Fprintf(c.Stdout, "The guard is in force: clients with --guard %v can start.\n", maxTTL)
	}
	return exit
}

// lateVotes is how much longer than maxTTL it may take until all nodes vote, beside what nodes
// behind Sentinels add.
const lateVotes = time.Minute

// whenAllVote acquires and releases a lock again and again until every node votes. The acquisitions
// begin the quarantines, and end those that are over.
func whenAllVote(ctx context.Context, locker, client *redlock.Locker, maxTTL time.Duration) (*doctor.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*maxTTL+lateVotes)
	defer cancel()
	name := "begin-guard-" + strings.ToLower(rand.Text()[:10])
	for {
		lock, err := client.Acquire(ctx, name, beginTTL(maxTTL))
		if err != nil {
			return nil, err
		}
		_ = lock.Release(ctx) // leftover keys expire
		report, err := doctor.Diagnose(ctx, locker)
		if err != nil || allVote(report) {
			return report, err
		}
		if err := cli.Rest(ctx, cli.GuardPause); err != nil { // the last nodes follow soon
			return nil, fmt.Errorf("not all nodes vote: %w", err)
		}
	}
}

// beginTTL returns the TTL of that lock.
func beginTTL(maxTTL time.Duration) time.Duration { return min(maxTTL, 10*time.Second) }

// allVote reports whether every node has a marker that lets it vote.
func allVote(r *doctor.Report) bool {
	return !slices.ContainsFunc(r.Nodes, func(n doctor.Node) bool { return n.Guard != examine.StateOK })
}
