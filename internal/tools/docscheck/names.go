package main

import (
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"github.com/quorumlock/go-redlock/internal/tools/exported"
)

// api holds the names of the API: pkg.Name, Name, and Type.Member.
type api struct {
	names    map[string]bool
	packages map[string]bool
	types    map[string]bool
}

// checkNames checks that the names of the API exist that pages mention in spans of code, and counts
// them. Pages about the past, such as decisions, may use old names.
func checkNames(pages []*page) (int, []finding, error) {
	a, err := loadAPI()
	if err != nil {
		return 0, nil, err
	}
	count, found := 0, []finding(nil)
	for _, p := range pages {
		if strings.Contains(p.path, "/adr/") || strings.HasSuffix(p.path, "CHANGELOG.md") {
			continue
		}
		for _, s := range p.spans {
			n, wrong := a.check(s.text)
			count += n
			if wrong != "" {
				found = append(found, finding{p.path, s.line, wrong})
			}
		}
	}
	return count, found, nil
}

func loadAPI() (*api, error) {
	packages, err := exported.Load(token.NewFileSet(), "./clock", "./pool/...", "./redlock/...")
	if err != nil {
		return nil, err
	}
	a := &api{names: map[string]bool{}, packages: map[string]bool{}, types: map[string]bool{}}
	for _, path := range packages.Paths {
		p, err := packages.Import(path)
		if err != nil {
			return nil, err
		}
		a.packages[p.Name()] = true
		for _, name := range p.Scope().Names() {
			a.add(p, p.Scope().Lookup(name))
		}
	}
	return a, nil
}

func (a *api) add(p *types.Package, o types.Object) {
	if !o.Exported() {
		return
	}
	a.names[p.Name()+"."+o.Name()], a.names[o.Name()] = true, true
	if _, ok := o.(*types.TypeName); !ok {
		return
	}
	a.types[o.Name()] = true
	add := func(member string) {
		a.names[o.Name()+"."+member], a.names[p.Name()+"."+o.Name()+"."+member] = true, true
	}
	if s, ok := o.Type().Underlying().(*types.Struct); ok {
		for field := range s.Fields() {
			add(field.Name())
		}
	}
	for _, t := range []types.Type{o.Type(), types.NewPointer(o.Type())} {
		methods := types.NewMethodSet(t)
		for method := range methods.Methods() {
			add(method.Obj().Name())
		}
	}
}

var (
	dotted = regexp.MustCompile(`^\*?([A-Za-z]+)((?:\.[A-Z]\w*)+)(?:[({\s].*)?$`)
	alone  = regexp.MustCompile(`^((?:With|Err)[A-Z]\w*)(?:\(.*)?$`)
	ofTest = regexp.MustCompile(`^\.(Test|Fuzz|Benchmark|Example)`)
)

// check returns 1 if a span is a name of the API. It returns an error text if the span looks like a
// name and is not one.
func (a *api) check(span string) (int, string) {
	if m := alone.FindStringSubmatch(span); m != nil {
		return a.find(m[1])
	}
	m := dotted.FindStringSubmatch(span)
	if m == nil || ofTest.MatchString(m[2]) || !a.packages[m[1]] && !a.types[m[1]] {
		return 0, ""
	}
	return a.find(m[1] + m[2])
}

func (a *api) find(name string) (int, string) {
	if !a.names[name] {
		return 1, "the API has no " + name
	}
	return 1, ""
}
