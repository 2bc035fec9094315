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

// A book is all that was ever measured into one folder: what is measured anew replaces what was there of the same workload.
type book struct {
	Machine machine          `json:",omitzero"` // of tables that name none: so it was written before each had its own
	Tables  map[string]table // by the workload's name
}

const (
	pageName = "benchmarks.md"
	dataName = "benchmarks/results.json"
)

// openBook fails before anything is measured where there would be no place for it.
func openBook(folder string) (*book, error) {
	b := &book{Tables: make(map[string]table)}
	if folder == "" {
		return b, nil
	}
	page, err := os.ReadFile(filepath.Join(folder, pageName))
	if err != nil {
		return nil, fmt.Errorf("--out needs a folder with a page to fill: %w", err)
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
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("%s: %w", dataName, err)
	}
	for name, t := range b.Tables {
		if !slices.ContainsFunc(known, func(w workload) bool { return w.name == name }) {
			delete(b.Tables, name) // no page shows it any more
			continue
		}
		if t.Machine == (machine{}) {
			t.Machine = b.Machine
			b.Tables[name] = t
		}
	}
	b.Machine = machine{}
	return b, nil
}

// usual is what most tables were measured on, and when. The page says it once, and every other table for itself.
func (b *book) usual() (most machine) {
	tables := make(map[machine]int)
	for _, w := range workloads() {
		if t, ok := b.Tables[w.name]; ok {
			if tables[t.Machine]++; tables[t.Machine] > tables[most] {
				most = t.Machine
			}
		}
	}
	return most
}

// write replaces the plots, the tables in the page, and last the figures behind both: where one of them fails, the figures stay those that
// the page shows.
func (b *book) write(folder string) error {
	if folder == "" {
		return nil
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(dataName)), 0o755); err != nil {
		return err
	}
	if err := b.plot(filepath.Join(folder, filepath.Dir(dataName))); err != nil {
		return err
	}
	if err := b.fillPage(filepath.Join(folder, pageName)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, dataName), append(text, '\n'), 0o644)
}

// fillPage writes tables into their places in the page. People write the rest.
func (b *book) fillPage(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(text)
	usual := b.usual()
	parts := map[string]string{"machine": usual.String(), "targets": targetsTable(b)}
	for _, w := range workloads() {
		if t, ok := b.Tables[w.name]; ok {
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

// fill replaces what stands between a part's two marks.
func fill(page, name, part string) (string, error) {
	begin, end := "<!-- bench: "+name+" -->\n", "<!-- /bench: "+name+" -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no place for %q, between %q and %q", name, strings.TrimSpace(begin), end)
	}
	return before + begin + part + end + after, nil
}

// row finds a contestant's row of a workload.
func (b *book) row(workload, kind string) (row, bool) {
	rows := b.Tables[workload].Rows
	i := slices.IndexFunc(rows, func(r row) bool { return r.Kind == kind })
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}
