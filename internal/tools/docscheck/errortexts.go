package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// errorPage has a table of texts that users see: in the first column the texts, in spans of code.
const errorPage = "docs/errors.md"

// errorSources are the folders whose texts users see.
var errorSources = []string{
	"redlock", "internal/report", "pool", "pool/sentinel", "pool/cluster", "internal/node", "internal/named", "internal/command", "redlock/doctor", "internal/examine", "internal/visit", "internal/guard", "internal/pubsub", "internal/server", "internal/session",
	"internal/transport", "internal/env", "internal/claim", "internal/nodelist", "cmd/redlock",
	"cmd/redlock/internal/process", "cmd/redlock/internal/cli", "cmd/redlock/internal/query", "cmd/redlock/internal/watch",
	"cmd/redlock/internal/status", "cmd/redlock/internal/list", "cmd/redlock/internal/breaking", "cmd/redlock/internal/request",
	"cmd/redlock/internal/claim", "cmd/redlock/internal/doctor", "cmd/redlock/internal/run",
	"contrib/schedlock", "contrib/sqlfence",
}

// checkErrors compares the page of errors with the sources. Each exported error, each line of the log and
// each message of the command must stand on the page, and each text on the page in the sources. It counts
// the texts of the page.
func checkErrors(pages []*page) (int, []finding, error) {
	i := slices.IndexFunc(pages, func(p *page) bool { return p.path == errorPage })
	if i < 0 {
		return 0, nil, nil
	}
	source, err := os.ReadFile(errorPage)
	if err != nil {
		return 0, nil, err
	}
	t := &sourceTexts{all: make(map[string]bool), needed: make(map[string]string)}
	for _, folder := range errorSources {
		if err := t.read(folder); err != nil {
			return 0, nil, err
		}
	}
	listed := firstColumn(string(source))
	return len(listed), t.compare(listed), nil
}

// firstColumn returns the spans of code in the first cell of each row of a page's tables.
func firstColumn(source string) (listed []text) {
	for i, line := range strings.Split(source, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cell, _, _ := strings.Cut(strings.ReplaceAll(line[1:], `\|`, "\x00"), "|")
		for _, m := range span.FindAllStringSubmatch(cell, -1) {
			listed = append(listed, text{i + 1, strings.ReplaceAll(strings.TrimSpace(m[2]), "\x00", "|")})
		}
	}
	return listed
}

// sourceTexts are the texts of the sources, with … where a value stands.
type sourceTexts struct {
	all    map[string]bool
	needed map[string]string // the place of each that must stand on the page
}

// compare returns the texts that one of the two sides lacks. The page may have a part of a text that is
// long enough to find it.
func (t *sourceTexts) compare(listed []text) (found []finding) {
	for _, l := range listed {
		exists := false
		for s := range t.all {
			exists = exists || strings.Contains(s, l.text)
		}
		if !exists {
			found = append(found, finding{errorPage, l.line, "the sources have no text " + strconv.Quote(l.text)})
		}
	}
	for _, s := range slices.Sorted(maps.Keys(t.needed)) {
		const enough = 15
		if !slices.ContainsFunc(listed, func(l text) bool {
			return l.text == s || len(l.text) >= enough && strings.Contains(s, l.text)
		}) {
			found = append(found, finding{errorPage, 1, fmt.Sprintf("%q is missing: %s", s, t.needed[s])})
		}
	}
	return found
}

// read reads the texts of a folder's package.
func (t *sourceTexts) read(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	r := &textReader{texts: t, folder: folder, fset: token.NewFileSet(), constants: make(map[string]ast.Expr)}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(r.fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
		r.addConstants(f)
	}
	for _, f := range files {
		for _, d := range f.Decls {
			r.addErrors(d)
		}
		ast.Inspect(f, r.visit)
	}
	return nil
}

// textReader reads the texts of one package.
type textReader struct {
	texts     *sourceTexts
	folder    string
	fset      *token.FileSet
	constants map[string]ast.Expr
}

func (r *textReader) addConstants(f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			for i, v := range spec.Values {
				r.constants[spec.Names[i].Name] = v
			}
		}
	}
}

// addErrors adds the exported errors of a declaration: var ErrX = errors.New("…").
func (r *textReader) addErrors(d ast.Decl) {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.VAR {
		return
	}
	for _, s := range g.Specs {
		spec := s.(*ast.ValueSpec)
		for i, v := range spec.Values {
			call, ok := v.(*ast.CallExpr)
			if ok && len(call.Args) > 0 && strings.HasPrefix(spec.Names[i].Name, "Err") {
				r.need("", call.Args[0])
			}
		}
	}
}

// visit adds each text to all, and what the log and the command print to needed.
func (r *textReader) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		r.texts.all[r.fold(n)] = true
	case *ast.BasicLit:
		r.texts.all[r.fold(n)] = true
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			name = f.Sel.Name
		case *ast.Ident:
			name = f.Name
		}
		if arg, prefix, printed := r.printed(name, n); printed {
			r.need(prefix, n.Args[arg])
		}
	}
	return true
}

// printed reports which argument of a call the log or the command prints, and what stands before it.
func (r *textReader) printed(name string, call *ast.CallExpr) (arg int, prefix string, printed bool) {
	file := filepath.Base(r.fset.Position(call.Pos()).Filename)
	switch {
	case (r.folder == "redlock" || r.folder == "internal/report") && slices.Contains([]string{"Warn", "Info", "fault"}, name):
		return 0, "redlock: ", true
	case (strings.HasPrefix(r.folder, "pool") || r.folder == "internal/pubsub" || r.folder == "internal/server") && strings.EqualFold(name, "log"):
		return 0, "redlock node: ", true
	case !strings.HasPrefix(r.folder, "cmd/redlock") || ownStage.MatchString(file):
		return 0, "", false
	case slices.Contains([]string{"misused", "say", "Misused", "Say", "New", "Errorf"}, name):
		return 0, "", len(call.Args) > 0
	case slices.Contains([]string{"fail", "Fail", "FailSilently", "CodedError"}, name):
		return 1, "", len(call.Args) > 1
	}
	return 0, "", false
}

// ownStage are files of the demo and of a bench, whose texts are about what they show.
var ownStage = regexp.MustCompile(`^(demo|bench|cuttable)`)

// need demands a text of the page. A text of the command that is little more than values is left out.
func (r *textReader) need(prefix string, e ast.Expr) {
	s := r.fold(e)
	if prefix == "" && !twoWords.MatchString(s) {
		return
	}
	s = prefix + s
	r.texts.all[s], r.texts.needed[s] = true, r.fset.Position(e.Pos()).String()
}

var twoWords = regexp.MustCompile(`[A-Za-z]{2,}[^A-Za-z].*[A-Za-z]{2,}`)

// verb is a place for a value in a format, or a percent sign.
var verb = regexp.MustCompile(`%%|%[-+# 0]*(?:\[\d+\])?[\d.]*[a-zA-Z]`)

// fold returns a text, with … for each value that is known only at run time.
func (r *textReader) fold(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "…"
		}
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			return "…"
		}
		return verb.ReplaceAllStringFunc(s, func(found string) string {
			if found == "%%" {
				return "%"
			}
			return "…"
		})
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return r.fold(e.X) + r.fold(e.Y)
		}
	case *ast.ParenExpr:
		return r.fold(e.X)
	case *ast.CallExpr:
		switch f := e.Fun.(type) {
		case *ast.Ident:
			if len(e.Args) == 1 { // of a type, such as strangerError("…")
				return r.fold(e.Args[0])
			}
		case *ast.SelectorExpr:
			if f.Sel.Name == "Sprintf" {
				return r.fold(e.Args[0])
			}
		}
	case *ast.Ident:
		if c := r.constants[e.Name]; c != nil {
			return r.fold(c)
		}
	}
	return "…"
}
