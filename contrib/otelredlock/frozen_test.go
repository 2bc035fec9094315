package otelredlock_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// docs/versions.md lists the metrics as frozen, with their kinds, units and attributes: dashboards and alerts rely on
// them. server.address and server.port are not here, because these nodes have names.
func TestTheNamesOfMetricsAreFrozen(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil, redlock.WithRestartGuard(ttl))
		require.NoError(t, take(t, l).Release(t.Context())) // a quarantine has ended on a majority …
		time.Sleep(time.Minute)                             // … and on all nodes
		k := take(t, l)
		synctest.Wait()
		w.LoseMajority()
		require.ErrorIs(t, k.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
		require.ErrorIs(t, k.Release(t.Context()), redlock.ErrNoQuorum)
		_, err := l.TryAcquire(t.Context(), "another", ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)

		attributes := map[string][]string{} // by the name of the metric
		for point := range w.figures() {
			metric, labels, _ := strings.Cut(strings.TrimSuffix(point, "}"), "{")
			for label := range strings.SplitSeq(labels, ",") {
				key, _, _ := strings.Cut(label, "=")
				attributes[metric] = append(attributes[metric], key)
			}
		}
		var found []string
		for _, m := range w.collect() {
			slices.Sort(attributes[m.Name])
			found = append(found, m.Name+", "+kind(m)+", "+m.Unit+": "+strings.Join(slices.Compact(attributes[m.Name]), " "))
		}
		slices.Sort(found)
		require.Equal(t, []string{
			"redlock.acquire.duration, histogram, s: error.type redlock.outcome",
			"redlock.attempts, counter, {attempt}: error.type redlock.outcome",
			"redlock.extensions, counter, {extension}: error.type redlock.extend.automatic redlock.outcome",
			"redlock.hold.duration, histogram, s: redlock.end_reason",
			"redlock.locks.held, up-down counter, {lock}: ",
			"redlock.losses, counter, {lock}: redlock.loss_reason",
			"redlock.node.duration, histogram, s: redlock.node",
			"redlock.node.errors, counter, {error}: error.type redlock.node redlock.operation",
			"redlock.node.voting, gauge, {node}: redlock.node",
			"redlock.nodes.quarantined, gauge, {node}: ",
			"redlock.release.validity, histogram, s: ",
			"redlock.releases, counter, {release}: error.type redlock.outcome",
			"redlock.waiters, up-down counter, {acquisition}: ",
			"redlock.wakeups, counter, {wakeup}: redlock.wakeup",
		}, found)
	})
}
