package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/tools/exported"
)

// known are the packages that a block of Go may use without an import.
var known = byName("context", "crypto/tls", "crypto/x509", "database/sql", "encoding/json", "errors", "fmt", "io", "log", "log/slog", "net",
	"net/http", "os", "os/exec", "os/signal", "path/filepath", "strings", "sync", "sync/atomic", "syscall", "testing",
	"testing/synctest", "time",
	"github.com/gomodule/redigo/redis",
	"github.com/quorumlock/go-redlock/clock", "github.com/quorumlock/go-redlock/contrib/sqlfence", "github.com/quorumlock/go-redlock/pool",
	"github.com/quorumlock/go-redlock/pool/cluster", "github.com/quorumlock/go-redlock/pool/sentinel",
	"github.com/quorumlock/go-redlock/internal/command", "github.com/quorumlock/go-redlock/redlock",
	"github.com/quorumlock/go-redlock/redlock/redlocktest", "github.com/quorumlock/go-redlock/contrib/goredisnodes",
	"goredis github.com/redis/go-redis/v9", "pgx github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool")

// given are the variables that it may use without a declaration.
var given = map[string]string{
	"ctx":    "context.Context",
	"locker": "*redlock.Locker",
	"lock":   "*redlock.Lock",
	"urls":   "[]string",
	"nodes":  "[]*pool.Node",
	"logger": "*slog.Logger",
}

// byName returns paths by the names of their packages. A name in front of a path replaces its own.
func byName(paths ...string) map[string]string {
	names := map[string]string{}
	for _, p := range paths {
		if name, other, ok := strings.Cut(p, " "); ok {
			names[name] = other
			continue
		}
		names[path.Base(p)] = p
	}
	return names
}

// checkGo compiles every block of Go, and counts them.
func checkGo(pages []*page) (int, []finding, error) {
	fset := token.NewFileSet()
	var found []finding
	count, files, imports := 0, []*ast.File(nil), map[string]bool{}
	for _, p := range pages {
		for _, b := range p.blocks {
			if b.language != "go" {
				continue
			}
			count++
			if b.left != "" {
				continue
			}
			if strings.Contains(b.text, ".Token()") {
				found = append(found, finding{p.path, b.line, "the block uses a token, which can release the lock: use Lock.ID"})
			}
			f, err := program(fset, p.path, b)
			if err != nil {
				found = append(found, errorsOf(p.path, b.line, err)...)
				continue
			}
			files = append(files, f)
			for _, i := range f.Imports {
				imports[importPath(i)] = true
			}
		}
	}
	if len(files) == 0 {
		return count, found, nil
	}
	packages, err := exported.Load(fset, slices.Sorted(maps.Keys(imports))...)
	if err != nil {
		return 0, nil, err
	}
	for _, f := range files {
		c := types.Config{Importer: packages, Error: func(err error) { found = append(found, errorsOf("", 0, err)...) }}
		_, _ = c.Check(f.Name.Name, fset, []*ast.File{f}, nil) // Error has been told
	}
	return count, found, nil
}

func importPath(i *ast.ImportSpec) string {
	p, _ := strconv.Unquote(i.Path.Value) // the parser has looked
	return p
}

// program makes a complete file of a block. A block may be a file, declarations, which get imports
// and variables, or statements, which also get a function.
func program(fset *token.FileSet, name string, b block) (*ast.File, error) {
	at := fmt.Sprintf("\n//line %s:%d\n", path.Base(name), b.line)
	if strings.HasPrefix(b.text, "package ") || strings.Contains(b.text, "\npackage ") {
		return parser.ParseFile(fset, name, at+b.text, parser.SkipObjectResolution)
	}
	declarations := "package block" + at + b.text
	source := declarations
	if _, err := parser.ParseFile(token.NewFileSet(), name, declarations, 0); err != nil {
		open := "package block" + at + "func _() (_ error) {" + at + b.text
		source = open + "\n" + use(open+"}") + "return nil }\n"
	}
	if b.with != "" {
		source += fmt.Sprintf("\n//line %s:%d\n%s\n", path.Base(name), b.line-2, bodies(b.with))
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		return nil, err
	}
	return parser.ParseFile(fset, name, strings.Replace(source, "package block", "package block;"+missing(f), 1), parser.SkipObjectResolution)
}

// use uses the variables that statements declare, because what the reader adds after them is
// unknown.
func use(source string) string {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return "" // it is told when the whole is parsed
	}
	var lines strings.Builder
	for _, statement := range f.Decls[0].(*ast.FuncDecl).Body.List {
		for _, id := range declared(statement) {
			if id.Name != "_" {
				fmt.Fprintf(&lines, "_ = %s;", id.Name)
			}
		}
	}
	return lines.String()
}

func declared(s ast.Stmt) []*ast.Ident {
	var ids []*ast.Ident
	switch s := s.(type) {
	case *ast.AssignStmt:
		for _, left := range s.Lhs {
			if id, ok := left.(*ast.Ident); ok && s.Tok == token.DEFINE {
				ids = append(ids, id)
			}
		}
	case *ast.DeclStmt:
		for _, spec := range s.Decl.(*ast.GenDecl).Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				ids = append(ids, v.Names...)
			}
		}
	}
	return ids
}

// bodies gives a body to functions that are only declared.
func bodies(declarations string) string {
	lines := strings.Split(declarations, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "func ") && !strings.HasSuffix(line, "}") {
			lines[i] = line + ` { panic("") }`
		}
	}
	return strings.Join(lines, "\n")
}

// missing declares, in one line, what a file uses and does not declare.
func missing(f *ast.File) string {
	imports, variables := map[string]string{}, map[string]string{}
	var need func(name string)
	need = func(name string) {
		if p, ok := known[name]; ok {
			imports[name] = p
		} else if t, ok := given[name]; ok {
			variables[name] = t
			if pkg, _, ok := strings.Cut(strings.TrimLeft(t, "[]*"), "."); ok {
				need(pkg)
			}
		}
	}
	for _, id := range f.Unresolved {
		need(id.Name)
	}
	for _, i := range f.Imports {
		delete(imports, path.Base(importPath(i)))
	}
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&s, " import %s %q;", name, imports[name])
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&s, " var %s %s;", name, variables[name])
	}
	return s.String()
}

// errorsOf returns the compiler's errors, each with its line.
func errorsOf(name string, line int, err error) []finding {
	var t types.Error
	if errors.As(err, &t) {
		at := t.Fset.Position(t.Pos)
		return []finding{{at.Filename, at.Line, t.Msg}}
	}
	return []finding{{name, line, "the block does not parse: " + err.Error()}}
}
