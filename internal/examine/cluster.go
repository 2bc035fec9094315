package examine

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// ofCluster returns the diagnosis of a Cluster by those of its masters, or why each could not be examined. The
// facts are those of the first one that answers; the findings are of all.
func ofCluster(node string, of node.Servers, each []*Diagnosis, errs []error, within time.Duration) (*Diagnosis, error) {
	var found *Diagnosis
	var said []Finding
	replicas := 0
	for i, e := range each {
		if errs[i] != nil {
			said = append(said, Unreachable(of.All[i].Config.Label, errs[i], within.Round(time.Millisecond)))
			continue
		}
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
		// No master could be examined, so the errors are all there is to report. A slot map names at least
		// one master.
		return nil, oneline.Join(errs...)
	}
	found.Replicas, found.Findings = replicas, slices.Concat(said, topologyFindings(node, of, replicas), clockFindings(node, each))
	return found, nil
}

// topologyFindings returns the findings about the whole Cluster.
func topologyFindings(node string, of node.Servers, replicas int) (all []Finding) {
	add := func(g Grade, format string, args ...any) {
		all = append(all, finding(g, command.CodeCluster, "%s %s", node, fmt.Sprintf(format, args...)))
	}
	add(Note, "is a Redis Cluster of %d masters, and one vote", len(of.All))
	if of.Unserved > 0 {
		add(Error, "has %d of %d slots unassigned: %s", of.Unserved, command.Slots, of.Gap)
	}
	if replicas > 0 {
		add(Warning, "may promote a replica that lacks the locks that its master granted last, and no restart guard keeps that one from "+
			"voting: prefer single masters, or masters behind Sentinels")
	}
	return all
}

// maxSpread is how far the clocks of a Cluster's masters may differ: the constant part of the
// default drift allowance.
const maxSpread = 2 * time.Millisecond

// clockFindings warns of masters whose clocks surely differ. Atomic slot migrations and failovers carry
// expiries as instants, which the next master compares with its own clock (docs/nodes.md).
func clockFindings(node string, each []*Diagnosis) []Finding {
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
	return []Finding{finding(Warning, CodeClock, "%s has masters whose clocks differ by %v: an atomic slot migration or a failover may end "+
		"locks early by that much; run NTP on all of them", node, spread.Round(time.Millisecond))}
}
