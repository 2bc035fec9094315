// Command lockorder runs tests and finds in which order they lock the mutexes of this module. It
// compares the order with the table of docs/dev/architecture.md, and reports each order that the
// table does not have.
//
// It changes no file. It compiles copies in which every field of type sync.Mutex is a mutex that
// records its order, by go's -overlay.
//
// With -one it prints instead how often mutexes are locked for one lock.
//
// usage: lockorder docs/dev/architecture.md -- package ... [flags of go test]
//
//	lockorder -one
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// folders have the mutexes whose order matters: goroutines hold one while they take another.
var folders = []string{"redlock", "pool", "pool/sentinel", "pool/cluster", "internal/node", "internal/server", "internal/pubsub", "internal/vote", "internal/waiting", "internal/timer", "internal/command", "internal/report", "internal/background"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lockorder:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if slices.Equal(args, []string{"-one"}) {
		return countOne()
	}
	i := slices.Index(args, "--")
	if i != 1 {
		return errors.New("usage: lockorder page -- package ... [flags of go test], or lockorder -one")
	}
	page, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	allowed, err := tableOf(string(page))
	if err != nil {
		return err
	}
	return inOverlay(func(work, overlay string) error { return runTests(work, overlay, args[i+1:], allowed) })
}

// inOverlay calls f with a folder for its files, which is removed afterwards, and the name of an overlay
// in it.
func inOverlay(f func(work, overlay string) error) error {
	work, err := os.MkdirTemp("", "lockorder")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	overlay, err := makeOverlay(work)
	if err != nil {
		return err
	}
	return f(work, overlay)
}

// runTests runs tests, and compares the orders that they recorded with those that are allowed.
func runTests(work, overlay string, tests []string, allowed map[string]bool) error {
	seen := filepath.Join(work, "seen")
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-overlay", overlay}, tests...)...)
	cmd.Env = append(os.Environ(), "LOCK_ORDER="+seen)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the tests: %w", err)
	}
	lines, err := os.ReadFile(seen)
	if err != nil {
		return fmt.Errorf("no mutex was locked under another: %w", err)
	}
	return compare(strings.Split(strings.TrimSpace(string(lines)), "\n"), allowed)
}

// countOne runs command onelock with mutexes that count.
func countOne() error {
	return inOverlay(func(_, overlay string) error {
		cmd := exec.Command("go", "run", "-overlay", overlay, "./internal/tools/lockorder/onelock")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	})
}

// compare reports the orders that are not allowed. A line is "A B", a tab and the functions: B was
// locked under A.
func compare(lines []string, allowed map[string]bool) error {
	callers := map[string]string{}
	for _, line := range lines {
		order, by, _ := strings.Cut(line, "\t")
		callers[order] = by
	}
	wrong := 0
	for _, order := range slices.Sorted(maps.Keys(callers)) {
		if !allowed[order] {
			wrong++
			fmt.Printf("%s: %s\n", strings.Replace(order, " ", " → ", 1), callers[order])
		}
	}
	fmt.Printf("lockorder: %d orders, %d not in the table\n", len(callers), wrong)
	if wrong > 0 {
		return errors.New("a mutex was locked in an order that the table does not have")
	}
	return nil
}

// tableOf reads the table: lines of the form "A, B → C, D" in a block of code under the heading "The
// order of mutexes". It returns an error if the orders have a cycle.
func tableOf(page string) (allowed map[string]bool, _ error) {
	_, rest, ok := strings.Cut(page, "## The order of mutexes")
	_, rest, ok2 := strings.Cut(rest, "```\n")
	block, _, ok3 := strings.Cut(rest, "```")
	if !ok || !ok2 || !ok3 {
		return nil, errors.New("the page has no table of the order of mutexes")
	}
	under := map[string][]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
		left, right, ok := strings.Cut(line, "→")
		if !ok {
			return nil, fmt.Errorf("no → in %q", line)
		}
		for _, a := range names(left) {
			under[a] = append(under[a], names(right)...)
		}
	}
	allowed = map[string]bool{}
	for a := range under {
		if err := follow(a, a, under, allowed); err != nil {
			return nil, err
		}
	}
	return allowed, nil
}

// follow records all that may be locked under from, by way of at.
func follow(from, at string, under map[string][]string, allowed map[string]bool) error {
	for _, b := range under[at] {
		if b == from {
			return fmt.Errorf("the table has a cycle at %s", from)
		}
		if allowed[from+" "+b] {
			continue
		}
		allowed[from+" "+b] = true
		if err := follow(from, b, under, allowed); err != nil {
			return err
		}
	}
	return nil
}

func names(list string) (all []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "none" && name != "" {
			all = append(all, name)
		}
	}
	return all
}

// makeOverlay writes the changed copies and the file for -overlay, and returns its name.
func makeOverlay(work string) (string, error) {
	replace := map[string]string{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := recording(file)
			if err != nil {
				return "", err
			}
			if text == nil {
				continue
			}
			abs, err := filepath.Abs(file)
			if err != nil {
				return "", err
			}
			replace[abs] = filepath.Join(work, strings.ReplaceAll(file, "/", "_"))
			if err := os.WriteFile(replace[abs], text, 0o600); err != nil {
				return "", err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(work, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// recording returns a copy of a file in which the mutexes of its structs record their order, or nil
// if it has none. The class of a mutex is a type that is declared at the end of the copy.
func recording(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out, classes bytes.Buffer
	done := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range s.Fields.List {
			sel, ok := field.Type.(*ast.SelectorExpr)
			if !ok || len(field.Names) != 1 || !isMutex(sel) {
				continue
			}
			class := spec.Name.Name + "." + field.Names[0].Name
			if f.Name.Name != "redlock" && f.Name.Name != "pool" {
				class = f.Name.Name + "." + class
			}
			id := "lockClass_" + spec.Name.Name + "_" + field.Names[0].Name
			fmt.Fprintf(&classes, "\ntype %s struct{}\n\nfunc (%s) Name() string { return %q }\n", id, id, class)
			out.Write(text[done:fset.Position(sel.Pos()).Offset])
			fmt.Fprintf(&out, "record.Mutex[%s]", id)
			done = fset.Position(sel.End()).Offset
		}
		return true
	})
	if done == 0 {
		return nil, nil
	}
	out.Write(text[done:])
	out.Write(classes.Bytes())
	// The import goes on the line of the package clause, so that no line moves.
	at := fset.Position(f.Name.End()).Offset
	copied := slices.Concat(out.Bytes()[:at], []byte(`; import "github.com/quorumlock/go-redlock/internal/tools/lockorder/record"`), out.Bytes()[at:])
	return append(copied, "\nvar _ sync.Mutex // its import stays in use\n"...), nil
}

func isMutex(sel *ast.SelectorExpr) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "sync" && sel.Sel.Name == "Mutex"
}
