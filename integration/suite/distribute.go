package main

import (
	"bytes"
	"cmp"
	_ "embed" // took.txt
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// tookText says how long each test of the folder integration took, on some machine. `suite -remember`
// writes it. It decides only which tests run one after the other.
//
//go:embed took.txt
var tookText string

const tookPath = "integration/suite/took.txt"

// tookBefore parses tookText: a duration and a test on each line.
func tookBefore() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for line := range strings.Lines(tookText) {
		took, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if d, err := time.ParseDuration(took); err == nil {
			all[strings.TrimSpace(name)] = d
		}
	}
	return all
}

// distribute returns a list of tests for each lane, of about the same time in all: the longest test
// that is left goes to the lane with the least. A test that is not known counts as a second.
func distribute(names []string, lanes int, took map[string]time.Duration) [][]string {
	of := func(name string) time.Duration {
		if d, ok := took[name]; ok {
			return d
		}
		return time.Second
	}
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(of(b), of(a)) })
	all, sums := make([][]string, lanes), make([]time.Duration, lanes)
	for _, name := range names {
		least := slices.Index(sums, slices.Min(sums))
		all[least] = append(all[least], name)
		sums[least] += of(name)
	}
	return all
}

// remember writes took.txt.
func (r *report) remember() error {
	var text bytes.Buffer
	var lines []string
	for _, t := range r.tests() {
		if strings.HasPrefix(t.Package, module+"/integration#") {
			lines = append(lines, fmt.Sprintf("%-6s %s", t.Elapsed.Round(100*time.Millisecond), t.Test))
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[7:], b[7:]) })
	for _, line := range lines {
		text.WriteString(line + "\n")
	}
	return os.WriteFile(tookPath, text.Bytes(), 0o644) //nolint:gosec // a file of the repository
}
