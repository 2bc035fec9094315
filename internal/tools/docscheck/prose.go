package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSentence is the largest number of words of a sentence, and maxLine the largest number of
// characters of a line of prose.
const (
	maxSentence = 35
	maxLine     = 120
)

// habits are phrases that need a second reading.
var habits = []struct {
	pattern *regexp.Regexp
	cure    string
}{
	{regexp.MustCompile(`(^|[.!?] )(Who|Whom) [a-z]`), "name the subject: the caller, the waiter, the node"},
	{regexp.MustCompile(`\b[Ww]ho(m|)ever\b`), "name the subject"},
	{regexp.MustCompile(`\bis none\b`), `write "is not valid", "is not an X"`},
	{regexp.MustCompile(`\bfor ever\b`), `write "forever"`},
	{regexp.MustCompile(`\banew\b`), `write "again"`},
	{regexp.MustCompile(`\bof (no )?use\b`), `write "useful", "useless"`},
}

// exempt are the pages to which the rules of prose do not apply. Programs write most of them.
var exempt = regexp.MustCompile(`^docs/(benchmarks|command|dev/faults|dev/mutants|dev/mutation|dev/nightly|dev/probes)\.md$`)

// checkProse finds long sentences, long lines and habits in pages.
func checkProse(pages []*page) (found []finding) {
	for _, p := range pages {
		if exempt.MatchString(p.path) {
			continue
		}
		for _, line := range p.long {
			found = append(found, finding{p.path, line, fmt.Sprintf("a line has more than %d characters", maxLine)})
		}
		for _, t := range p.paragraphs {
			for _, wrong := range wrongProse(t.text) {
				found = append(found, finding{p.path, t.line, wrong})
			}
		}
	}
	return found
}

// wrongProse returns what is wrong with a paragraph.
func wrongProse(paragraph string) (wrong []string) {
	plain := inline.ReplaceAllString(span.ReplaceAllString(paragraph, "x"), "]")
	plain = strings.NewReplacer("[", "", "]", "", "*", "", "default is none", "default").Replace(plain)
	for _, h := range habits {
		if m := h.pattern.FindString(plain); m != "" {
			wrong = append(wrong, fmt.Sprintf("%q: %s", strings.TrimSpace(m), h.cure))
		}
	}
	for _, s := range sentenceEnd.Split(plain, -1) {
		if words := strings.Fields(s); len(words) > maxSentence {
			wrong = append(wrong, fmt.Sprintf("a sentence has %d words, more than %d: %q", len(words), maxSentence, strings.Join(words[:6], " ")+" …"))
		}
	}
	return wrong
}

var sentenceEnd = regexp.MustCompile(`[.!?:;]["')]*(\s+|$)`)

// checkGodoc finds the same in the comments of exported names.
func checkGodoc(folders []string) (found []finding, _ error) {
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, doc := range exportedDocs(f) {
				line := fset.Position(doc.Pos()).Line
				for _, p := range paragraphsOf(doc.Text()) {
					wrongs := wrongProse(p)
					if cited := forContributors.FindString(p); cited != "" {
						wrongs = append(wrongs, fmt.Sprintf("%q: a page for contributors: explain instead", cited))
					}
					for _, wrong := range wrongs {
						found = append(found, finding{filepath.ToSlash(file), line, wrong})
					}
				}
			}
		}
	}
	return found, nil
}

// forContributors is a citation that users should not have to look up.
var forContributors = regexp.MustCompile(`docs/dev\b|\bH[0-9]{1,3}\b|\b[Rr]ules? [0-9]+`)

// exportedDocs returns the comments of a file that go doc shows.
func exportedDocs(f *ast.File) (docs []*ast.CommentGroup) {
	add := func(name string, doc *ast.CommentGroup) {
		if doc != nil && ast.IsExported(name) {
			docs = append(docs, doc)
		}
	}
	if f.Doc != nil {
		docs = append(docs, f.Doc)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				add(d.Name.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if ast.IsExported(s.Name.Name) {
						add(s.Name.Name, d.Doc)
						add(s.Name.Name, s.Doc)
						for _, field := range fieldsOf(s.Type) {
							for _, n := range field.Names {
								add(n.Name, field.Doc)
							}
						}
					}
				case *ast.ValueSpec:
					add(s.Names[0].Name, d.Doc)
					add(s.Names[0].Name, s.Doc)
				}
			}
		}
	}
	slices.SortFunc(docs, func(a, b *ast.CommentGroup) int { return int(a.Pos() - b.Pos()) })
	return slices.Compact(docs)
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func fieldsOf(t ast.Expr) []*ast.Field {
	switch t := t.(type) {
	case *ast.StructType:
		return t.Fields.List
	case *ast.InterfaceType:
		return t.Methods.List
	}
	return nil
}

// paragraphsOf returns the paragraphs of a doc comment, without blocks of code. An item of a list
// is a paragraph.
func paragraphsOf(doc string) (all []string) {
	var open []string
	end := func() {
		if len(open) > 0 {
			all = append(all, strings.Join(open, " "))
		}
		open = nil
	}
	for line := range strings.SplitSeq(doc, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
			end()
		case listItem.MatchString(line):
			end()
			open = []string{trimmed}
		case strings.HasPrefix(line, "\t"):
			end()
		default:
			open = append(open, trimmed)
		}
	}
	end()
	return all
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
		if filepath.ToSlash(path) == "CHANGELOG.md" {
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
