// Docscheck checks the documents against the code. Every link must have a target, and Go code must
// compile. The targets of make, the redlock command's flags, the Go files and the API's names that
// they mention must exist. docs/errors.md must have each text of an error, the log or the command,
// and no other. The doc.go of redlock and pool must name every file. A line of prose must not be too
// long. It warns of figures that were measured at an older state of the code ("commit 1bfe5c8"). It
// fetches nothing.
//
// usage: docscheck PAGE|FOLDER…
//
// It is run at the root of the repository. A block of Go is a whole program, a file's
// declarations, or statements, for which the usual imports and variables are added (see
// golang.go). Two comments in front of a block change that:
//
//	<!-- with: func settle(ctx context.Context) error -->    declares what a reader guesses
//	<!-- not compiled: reason -->                            leaves the block out
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: docscheck PAGE|FOLDER…")
		os.Exit(2)
	}
	found, old, summary, err := check(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "docscheck:", err)
		os.Exit(1)
	}
	for _, f := range old {
		fmt.Fprintln(os.Stderr, "warning:", f)
	}
	for _, f := range found {
		fmt.Fprintln(os.Stderr, f)
	}
	fmt.Println("docscheck:", summary)
	if len(found) > 0 {
		os.Exit(1)
	}
}

// finding is a wrong statement of a page.
type finding struct {
	page string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.page, f.line, f.text) }

// check returns what is wrong in pages, and the figures that are old.
func check(roots []string) (found, old []finding, summary string, _ error) {
	paths, err := pagesOf(roots)
	if err != nil {
		return nil, nil, "", err
	}
	var pages []*page
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, "", err
		}
		pages = append(pages, read(filepath.ToSlash(path), string(text)))
	}
	links, more := checkLinks(pages)
	found = append(found, more...)
	blocks, more, err := checkGo(pages)
	if err != nil {
		return nil, nil, "", err
	}
	found = append(found, more...)
	commands, more, err := checkCommands(pages)
	if err != nil {
		return nil, nil, "", err
	}
	found = append(found, more...)
	names, more, err := checkNames(pages)
	if err != nil {
		return nil, nil, "", err
	}
	found = append(found, more...)
	errorTexts, more, err := checkErrors(pages)
	if err != nil {
		return nil, nil, "", err
	}
	found = append(found, more...)
	more, err = checkFiles(roots)
	if err != nil {
		return nil, nil, "", err
	}
	found = append(found, more...)
	found = append(found, checkLines(pages)...)
	more, err = checkDocGo([]string{"redlock", "pool", "pool/sentinel", "pool/cluster", "internal/node", "internal/server"})
	if err != nil {
		return nil, nil, "", err
	}
	found = append(found, more...)
	return found, checkAge(pages), fmt.Sprintf("%d pages, %d links, %d blocks of Go, %d commands, %d names of the API, %d texts of errors; %d wrong",
		len(pages), links, blocks, commands, names, errorTexts, len(found)), nil
}

// pagesOf returns the Markdown files that are named, and those in the folders.
func pagesOf(roots []string) ([]string, error) {
	var paths []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}
