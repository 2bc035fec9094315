//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

// check rejects options that would measure nothing or less than requested, and options by which a
// few rows would replace a whole table.
func (o options) check() error {
	if o.rounds < 0 {
		return fmt.Errorf("--rounds is %d: it cannot be below 0", o.rounds)
	}
	if err := o.checkNames(); err != nil {
		return err
	}
	if len(o.kinds) > 0 && o.out != "" {
		return fmt.Errorf("--adapters would remove all other rows from the tables in %s: use it with --out ''", o.out)
	}
	if o.quick && o.out != "" {
		return fmt.Errorf("--quick would replace full measurements in %s: use it with --out ''", o.out)
	}
	return nil
}

func (o options) checkNames() error {
	for _, prefix := range o.only {
		if slices.ContainsFunc(workloads(), func(w workload) bool { return strings.HasPrefix(w.name, prefix) }) {
			continue
		}
		if strings.Contains(prefix, ";") {
			return fmt.Errorf("no workload's name begins with %q: --only takes names with commas between them, not semicolons", prefix)
		}
		return fmt.Errorf("no workload's name begins with %q: see --list", prefix)
	}
	known := all(func(adapters.Kind) bool { return true })
	for _, part := range o.kinds {
		if slices.ContainsFunc(known, func(kind string) bool { return strings.Contains(kind, part) }) {
			continue
		}
		hint := ""
		if strings.Contains(part, ",") {
			hint = " (--adapters takes names with semicolons between them, not commas)"
		}
		return fmt.Errorf("no adapter's name contains %q%s: there are %s", part, hint, strings.Join(known, "; "))
	}
	return nil
}

// nothingLeft returns why no workload was chosen, although each given name exists.
func (o options) nothingLeft() error {
	anywhere := o
	anywhere.nodes = nil
	chosen, needs := anywhere.choose(workloads()), 0
	for _, w := range chosen {
		if w.fault == healthy && (needs == 0 || w.servers < needs) {
			needs = w.servers
		}
	}
	switch {
	case len(chosen) == 0:
		return fmt.Errorf("none of the adapters %q takes part in a workload of %q", o.kinds, o.only)
	case needs == 0:
		return fmt.Errorf("the workloads of %q harm servers, and --nodes excludes them", o.only)
	}
	return fmt.Errorf("the chosen workloads need %d servers or more, and --nodes has %d", needs, len(o.nodes))
}
