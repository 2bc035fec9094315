package main

import (
	"cmp"
	_ "embed" // took.txt
	"fmt"
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

// remember writes took.txt.
func (r *report) remember() error {
	var lines []string
	add := func(name string, took time.Duration) {
		lines = append(lines, fmt.Sprintf("%-6s %s\n", took.Round(100*time.Millisecond), name))
	}
	for _, t := range r.tests() {
		if strings.HasPrefix(t.Package, module+"/integration#") {
			add(string(t.Test), t.Elapsed)
		}
	}
	for _, one := range r.runs {
		for _, name := range one.Packages() {
			if took := one.Package(name).Elapsed(); took > time.Second && !strings.Contains(name, "#") {
				add(name, took)
			}
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[7:], b[7:]) })
	return os.WriteFile(tookPath, []byte(strings.Join(lines, "")), 0o644) //nolint:gosec // a file of the repository
}
