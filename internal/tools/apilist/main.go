// Apilist writes the exported API of packages to files, with one line for each name that users can
// use. A review then shows every change of the API.
//
// usage: apilist [-check] FOLDER PATTERN…
//
// It writes FOLDER/<package>.txt for each package of the patterns, except commands and internal
// packages, and removes the files of other packages. With -check it writes nothing, and fails if a
// file would change.
package main

import (
	"flag"
	"fmt"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/tools/exported"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail where something would change")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: apilist [-check] FOLDER PATTERN…")
		os.Exit(2)
	}
	if err := run(*check, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apilist:", err)
		os.Exit(1)
	}
}

func run(check bool, folder string, patterns []string) error {
	want, err := listings(patterns)
	if err != nil {
		return err
	}
	have, err := committed(folder)
	if err != nil {
		return err
	}
	if check {
		return compare(folder, have, want)
	}
	return write(folder, have, want)
}

// listings returns the content of the files that should exist, by name.
func listings(patterns []string) (map[string]string, error) {
	packages, err := exported.Load(token.NewFileSet(), patterns...)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, path := range packages.Paths {
		if strings.Contains(path+"/", "/internal/") {
			continue
		}
		p, err := packages.Import(path)
		if err != nil {
			return nil, err
		}
		if p.Name() == "main" {
			continue
		}
		files[fileName(path)] = "package " + p.Name() + " // import \"" + path + "\"\n\n" + strings.Join(list(p), "\n") + "\n"
	}
	return files, nil
}

// fileName returns the part of an import path below the module's, as one word.
func fileName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "github.com/quorumlock/go-redlock/"), "/", "_") + ".txt"
}

// committed returns the content of the files that exist.
func committed(folder string) (map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(name)] = string(b)
	}
	return files, nil
}

func write(folder string, have, want map[string]string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for name, text := range want {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare returns an error that lists the added (+) and removed (-) lines.
func compare(folder string, have, want map[string]string) error {
	all := map[string]bool{}
	for name := range have {
		all[name] = true
	}
	for name := range want {
		all[name] = true
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if changed := diff(have[name], want[name]); changed != nil {
			changes = append(append(changes, filepath.Join(folder, name)), changed...)
		}
	}
	if changes == nil {
		return nil
	}
	return fmt.Errorf("the exported API is not what %s says; make api writes it down:\n%s", folder, strings.Join(changes, "\n"))
}

// diff returns the lines that only one of two listings has.
func diff(have, want string) []string {
	var changes []string
	old, now := strings.Split(have, "\n"), strings.Split(want, "\n")
	for _, line := range old {
		if !slices.Contains(now, line) {
			changes = append(changes, "  - "+line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			changes = append(changes, "  + "+line)
		}
	}
	if changes == nil && have != want {
		changes = []string{"  its lines are in another order"}
	}
	return changes
}
