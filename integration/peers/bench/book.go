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
	Machine machine
	Tables  map[string]table // by the workload's name
}

const (
	pageName = "benchmarks.md"
	dataName = "benchmarks/results.json"
)

func openBook(folder string) (*book, error) {
	b := &book{Tables: make(map[string]table)}
	if folder == "" {
		return b, nil
	}
	text, err := os.ReadFile(filepath.Join(folder, dataName))
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	return b, json.Unmarshal(text, b)
}

// write replaces the tables in the page, the plots, and the figures behind both.
func (b *book) write(folder string) error {
	if folder == "" {
		return nil
	}
	b.Machine = thisMachine()
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(dataName)), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, dataName), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := b.plot(filepath.Join(folder, filepath.Dir(dataName))); err != nil {
		return err
	}
	return b.fillPage(filepath.Join(folder, pageName))
}

// fillPage writes tables into their places in the page. People write the rest.
func (b *book) fillPage(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(text)
	parts := map[string]string{"machine": b.Machine.String(), "targets": targetsTable(b)}
	for _, w := range workloads() {
		if t, ok := b.Tables[w.name]; ok {
			parts[w.section()] += markdownTable(w, t)
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
