package main

import (
	"cmp"
	_ "embed" // took.txt
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// tookText says how long each test of the folder integration took, and each other package, on some
// machine. `suite -remember` writes it. It decides only the order, and which tests run one after the other.
//
//go:embed took.txt
var tookText string

const tookPath = "integration/suite/took.txt"

// times says how long tests and packages took. One that is not known counts as a second.
type times map[string]time.Duration

func (t times) of(name string) time.Duration {
	if d, ok := t[name]; ok {
		return d
	}
	return time.Second
}

// longestFirst returns the names in the order in which they start.
func (t times) longestFirst(names []string) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(t.of(b), t.of(a)) })
	return names
}

// tookBefore parses tookText: a duration, and a test or package, on each line.
func tookBefore() times {
	all := make(times)
	for line := range strings.Lines(tookText) {
		took, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if d, err := time.ParseDuration(took); err == nil {
			all[strings.TrimSpace(name)] = d
		}
	}
	return all
}

// distribute returns a list of tests for each lane, of about the same time in all: the longest test
// that is left goes to the lane with the least.
func distribute(names []string, lanes int, took times) [][]string {
	all, sums := make([][]string, lanes), make([]time.Duration, lanes)
	for _, name := range took.longestFirst(names) {
		least := slices.Index(sums, slices.Min(sums))
		all[least] = append(all[least], name)
		sums[least] += took.of(name)
	}
	return all
}

// remember writes took.txt. A package that runs also without the race detector counts by its longer run.
func (r *report) remember() error {
	took := make(times)
	for _, t := range r.tests() {
		if strings.HasPrefix(t.Package, module+"/integration#") {
			took[string(t.Test)] = t.Elapsed
		}
	}
	for _, one := range r.runs {
		for _, name := range one.Packages() {
			if d := one.Package(name).Elapsed(); d > time.Second && !strings.Contains(name, "#") {
				took[name] = max(took[name], d)
			}
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(took)) {
		fmt.Fprintf(&text, "%-6s %s\n", took[name].Round(100*time.Millisecond), name)
	}
	return os.WriteFile(tookPath, []byte(text.String()), 0o644) //nolint:gosec // a file of the repository
}
