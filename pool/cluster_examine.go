package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// masters returns the shards with slots, ordered by address, and the number of slots without one.
func (cl *cluster) masters() (all []*shard, unserved int) {
	cl.mu.Lock()
	// The result is a copy, so the caller uses the shards without the mutex. Under it no shard may
	// be called: its pipelines take their own mutex first.
	defer cl.mu.Unlock()
	seen := make(map[*shard]bool, len(cl.shards))
	for _, sh := range cl.slotOwners {
		switch {
		// No master has announced the slot, or the map left it out.
		case sh == nil:
			unserved++
		case !seen[sh]:
			seen[sh] = true
			all = append(all, sh)
		}
	}
	// The order of the slots changes with every reshard. The order of the addresses does not, so
	// the reports of two runs are comparable.
	slices.SortFunc(all, func(a, b *shard) int { return strings.Compare(a.address, b.address) })
	return all, unserved
}

// whyUnserved returns why slots have no master, and what to do.
func (cl *cluster) whyUnserved() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.gap != "" {
		return cl.gap
	}
	return "bring their masters back, or CLUSTER ADDSLOTS"
}

// pingAll answers a Ping when all masters have, because a lock may be on any of them.
func (cl *cluster) pingAll(c *command.Command) {
	all, unserved := cl.masters()
	if unserved > 0 {
		// A lock in an unassigned slot could not be acquired, so the node is not healthy as a
		// whole.
		reject(c, fmt.Errorf("pool: %w: %s: %d of %d slots are unassigned: %s", command.ErrUnfit, cl.node.cfg.Name, unserved, command.Slots,
			cl.whyUnserved()))
		return
	}
	// The command itself is never written: the copies below are. If Cancel came first, MarkSent
	// fails and no copy is sent. A later Cancel reports that the command may have left the process.
	if !c.MarkSent() {
		c.Fail(command.ErrGivenUp)
		return
	}
	// left is complete before the first submit, because a master may answer inside submit.
	p := &pings{command: c, left: len(all), reply: command.Reply{Outcome: command.Granted}}
	for _, sh := range all {
		// Each master gets a copy, because a command can be in one queue only and is answered once.
		each := &command.Command{Request: c.Request, Node: c.Node, To: p}
		sh.node.pipeline.submit(each)
	}
}

// pings counts the answers to pingAll.
type pings struct {
	command *command.Command

	mu    sync.Mutex // guards what follows; nothing is called under it
	left  int
	reply command.Reply // the first answer that is not a grant
}

// Answer receives the answer of one master. It answers the command after the mutex is released.
func (p *pings) Answer(_ *command.Command, r command.Reply) {
	p.mu.Lock()
	p.left--
	// The first fault is kept, and later grants do not replace it.
	if p.reply.Outcome == command.Granted {
		p.reply = r
	}
	r, last := p.reply, p.left == 0
	p.mu.Unlock()
	if last {
		// The masters' pings were sent apart from each other, so "not sent" of one says nothing
		// about the whole command.
		r.NotSent = false
		p.command.Answer(r)
	}
}

// examine examines all masters at the same time. The facts are those of the first one in order
// that answers; the findings are of all.
func (cl *cluster) examine(ctx context.Context, r *command.Request) (*command.Diagnosis, error) {
	began := cl.node.cfg.Clock.Now()
	// Without a slot map the masters are unknown.
	if err := cl.waitTopology(ctx); err != nil {
		return nil, err
	}
	all, unserved := cl.masters()
	// Each goroutine writes only its own index, so the slices need no mutex.
	each, errs := make([]*command.Diagnosis, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, sh := range all {
		wg.Go(func() { each[i], errs[i] = sh.examine(ctx, r) })
	}
	// examine ends with ctx, and a scan ends with r.ScanContext(), so this wait ends as well.
	wg.Wait()
	within := cl.node.cfg.Clock.Now().Sub(began).Round(time.Millisecond)
	var found *command.Diagnosis
	var said []command.Finding
	replicas := 0
	for i, e := range each {
		if errs[i] != nil {
			said = append(said, command.Unreachable(all[i].node.label, errs[i], within))
			continue
		}
		// One set of facts describes the whole Cluster in a report. The masters are sorted, so it
		// is the same one each time.
		if found == nil {
			found = e
		}
		for _, right := range e.MissingRights {
			// A right that is missing on any master is missing for some keys.
			if !slices.Contains(found.MissingRights, right) {
				found.MissingRights = append(found.MissingRights, right)
			}
		}
		replicas += e.Replicas
		said = append(said, e.Findings...)
	}
	if found == nil {
		// No master could be examined, so the errors are all there is to report.
		return nil, oneline.Join(errs...)
	}
	found.Replicas, found.Findings = replicas, slices.Concat(said, cl.topologyFindings(len(all), unserved, replicas), cl.clocks(each))
	return found, nil
}

// topologyFindings returns the findings about the whole Cluster.
func (cl *cluster) topologyFindings(masters, unserved, replicas int) (all []command.Finding) {
	add := func(g command.Grade, format string, args ...any) {
		all = append(all, command.Finding{Grade: g, Code: command.CodeCluster, Text: cl.node.cfg.Name + " " + fmt.Sprintf(format, args...)})
	}
	add(command.Note, "is a Redis Cluster of %d masters, and one vote", masters)
	if unserved > 0 {
		add(command.Error, "has %d of %d slots unassigned: %s", unserved, command.Slots, cl.whyUnserved())
	}
	if replicas > 0 {
		add(command.Warning, "may promote a replica that lacks the locks that its master granted last, and no restart guard keeps that one from "+
			"voting: prefer single masters, or masters behind Sentinels")
	}
	return all
}

// maxSpread is how far the clocks of a Cluster's masters may differ: the constant part of the
// default drift allowance.
const maxSpread = 2 * time.Millisecond

// clocks warns of masters whose clocks surely differ. Atomic slot migrations and failovers carry
// expiries as instants, which the next master compares with its own clock (docs/nodes.md).
func (cl *cluster) clocks(each []*command.Diagnosis) []command.Finding {
	// Both orders of each pair are compared, so a negative difference is covered.
	spread := time.Duration(0)
	for _, a := range each {
		for _, b := range each {
			if a != nil && b != nil && a.ClockRead && b.ClockRead {
				// Each offset is exact to half its round trip. Only the part of the difference
				// beyond both is sure.
				spread = max(spread, a.Offset-b.Offset-(a.RoundTrip+b.RoundTrip)/2)
			}
		}
	}
	if spread <= maxSpread {
		return nil
	}
	return []command.Finding{{Grade: command.Warning, Code: command.CodeClock, Text: fmt.Sprintf("%s has masters whose clocks differ by %v: "+
		"an atomic slot migration or a failover may end locks early by that much; run NTP on all of them",
		cl.node.cfg.Name, spread.Round(time.Millisecond))}}
}
