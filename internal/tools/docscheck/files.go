package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxLine is the largest number of characters of a line of prose.
const maxLine = 120

// generated are pages that programs write. Their lines may be long.
var generated = regexp.MustCompile(`^docs/(benchmarks\.md|command\.md|results/)`)

// checkLines finds long lines of prose.
func checkLines(pages []*page) (found []finding) {
	for _, p := range pages {
		for _, line := range p.long {
			if !generated.MatchString(p.path) {
				found = append(found, finding{p.path, line, fmt.Sprintf("a line has more than %d characters", maxLine)})
			}
		}
	}
	return found
}

// goFile is a path of Go code in a text.
var goFile = regexp.MustCompile(`\b(?:redlock|pool|clock|internal|contrib|cmd|integration)/[A-Za-z0-9_./-]*\.go\b`)

// checkFiles finds mentions of Go files that do not exist.
func checkFiles(roots []string) (found []finding, _ error) {
	paths, err := pagesOf(roots)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		// These tell of files as they were.
		if path := filepath.ToSlash(path); path == "CHANGELOG.md" || strings.HasPrefix(path, "docs/results/") {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(content), "\n") {
			for _, name := range goFile.FindAllString(line, -1) {
				if _, err := fs.Stat(os.DirFS("."), name); err != nil {
					found = append(found, finding{filepath.ToSlash(path), i + 1, "there is no file " + name})
				}
			}
		}
	}
	return found, nil
}

// namedFile matches the name of a Go file without a folder.
var namedFile = regexp.MustCompile(`(?:^|[\s,])([a-z0-9_]+\.go)\b`)

// checkDocGo finds Go files of a package that its doc.go does not name, and names of files that do
// not exist.
func checkDocGo(folders []string) (found []finding, _ error) {
	for _, folder := range folders {
		page := folder + "/doc.go"
		doc, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name := filepath.Base(file)
			if name != "doc.go" && !strings.HasSuffix(name, "_test.go") && !regexp.MustCompile(`\b`+regexp.QuoteMeta(name)).Match(doc) {
				found = append(found, finding{page, 1, "it does not name " + name})
			}
		}
		for _, match := range namedFile.FindAllSubmatch(doc, -1) {
			if name := string(match[1]); !slices.Contains(files, filepath.Join(folder, name)) {
				found = append(found, finding{page, 1, "there is no file " + name})
			}
		}
	}
	return found, nil
}
