// Apilist writes the exported API of packages to files, with one line for each name that users can
// use. A review then shows every change of the API.
//
// usage: apilist FOLDER PATTERN…
//
// It writes FOLDER/<package>.txt for each package of the patterns, except commands and internal
// packages, and removes the files of other packages.
package main

import (
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorumlock/go-redlock/internal/tools/exported"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: apilist FOLDER PATTERN…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "apilist:", err)
		os.Exit(1)
	}
}

func run(folder string, patterns []string) error {
	files, err := listings(patterns)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// listings returns the content of the files, by name.
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
