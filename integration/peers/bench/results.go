//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// results are all measurements of one folder. A new measurement of a workload replaces the old one.
type results struct {
	Machine machine          `json:",omitzero"` // of tables without a machine: older files have one machine for all tables
	Tables  map[string]table // by the workload's name
}

const (
	pageName = "benchmarks.md"
	dataName = "benchmarks/results.json"
)

// openResults reads the results in a folder. It returns an error before anything is measured if the
// page there has no place for a table.
func openResults(folder string) (*results, error) {
	rs := &results{Tables: make(map[string]table)}
	if folder == "" {
		return rs, nil
	}
	page, err := os.ReadFile(filepath.Join(folder, pageName))
	if err != nil {
		return nil, fmt.Errorf("--out needs a folder with %s: %w", pageName, err)
	}
	known := workloads()
	places := []string{"machine", "targets"}
	for _, w := range known {
		places = append(places, w.section())
	}
	for _, name := range places {
		if _, err := fill(string(page), name, ""); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, dataName))
	if errors.Is(err, fs.ErrNotExist) {
		return rs, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, rs); err != nil {
		return nil, fmt.Errorf("%s: %w", dataName, err)
	}
	for name, t := range rs.Tables {
		if !slices.ContainsFunc(known, func(w workload) bool { return w.name == name }) {
			delete(rs.Tables, name) // the page does not show it any more
			continue
		}
		if t.Machine == (machine{}) {
			t.Machine = rs.Machine
			rs.Tables[name] = t
		}
	}
	rs.Machine = machine{}
	return rs, nil
}

// usual returns the machine and the day of most tables. The page names it once. Each other table
// names its own.
func (rs *results) usual() (most machine) {
	tables := make(map[machine]int)
	for _, w := range workloads() {
		if t, ok := rs.Tables[w.name]; ok {
			if tables[t.Machine]++; tables[t.Machine] > tables[most] {
				most = t.Machine
			}
		}
	}
	return most
}

// write replaces the plots, then the tables in the page, and last the data of both. If a step
// fails, the data are still those that the page shows.
func (rs *results) write(folder string) error {
	if folder == "" {
		return nil
	}
	text, err := json.Marshal(rs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(dataName)), 0o755); err != nil {
		return err
	}
	if err := rs.plot(filepath.Join(folder, filepath.Dir(dataName))); err != nil {
		return err
	}
	if err := rs.fillPage(filepath.Join(folder, pageName)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, dataName), append(text, '\n'), 0o644)
}

// fillPage writes the tables into their places in the page. The rest of the page is written by hand.
func (rs *results) fillPage(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(text)
	usual := rs.usual()
	parts := map[string]string{"machine": usual.String(), "targets": targetsTable(rs)}
	for _, w := range workloads() {
		if t, ok := rs.Tables[w.name]; ok {
			parts[w.section()] += markdownTable(w, t, usual)
		}
	}
	for name, part := range parts {
		if page, err = fill(page, name, part); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// fill replaces the text between the two marks of a part.
func fill(page, name, part string) (string, error) {
	begin, end := "<!-- bench: "+name+" -->\n", "<!-- /bench: "+name+" -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no place for %q, between %q and %q", name, strings.TrimSpace(begin), end)
	}
	return before + begin + part + end + after, nil
}

// row returns the row of an adapter in the table of a workload.
func (rs *results) row(workload, kind string) (row, bool) {
	rows := rs.Tables[workload].Rows
	i := slices.IndexFunc(rows, func(r row) bool { return r.Kind == kind })
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}
