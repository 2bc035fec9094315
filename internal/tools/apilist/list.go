package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// list returns the API of a package, sorted: constants with their values, variables, functions,
// types, and the exported fields and methods of types.
func list(p *types.Package) []string {
	l := listing{pkg: p}
	scope := p.Scope()
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			l.object(o)
		}
	}
	slices.Sort(l.lines)
	return l.lines
}

type listing struct {
	pkg   *types.Package
	lines []string
}

func (l *listing) add(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// of returns a type as this package would write it: its own names without a package.
func (l *listing) of(t types.Type) string { return types.TypeString(t, l.qualify) }

func (l *listing) qualify(p *types.Package) string {
	if p == l.pkg {
		return ""
	}
	return p.Name()
}

func (l *listing) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		l.add("const %s %s = %s", o.Name(), l.of(o.Type()), o.Val().ExactString())
	case *types.Var:
		l.add("var %s %s", o.Name(), l.of(o.Type()))
	case *types.Func:
		l.add("func %s%s", o.Name(), l.signature(o.Type()))
	case *types.TypeName:
		l.typeName(o)
	}
}

func (l *listing) signature(t types.Type) string { return strings.TrimPrefix(l.of(t), "func") }

func (l *listing) typeName(o *types.TypeName) {
	if alias, ok := o.Type().(*types.Alias); ok {
		l.add("type %s = %s", o.Name(), l.of(alias.Rhs()))
		return
	}
	named, ok := o.Type().(*types.Named)
	if !ok {
		return
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		l.add("type %s struct%s", o.Name(), incomparable(u))
		l.fields(o.Name(), u)
	case *types.Interface:
		l.add("type %s interface%s", o.Name(), sealed(u))
		for method := range u.Methods() {
			l.method(o.Name(), method)
		}
		return
	default:
		l.add("type %s %s", o.Name(), l.of(u))
	}
	l.methods(o.Name(), named)
}

// incomparable marks a struct that cannot be compared. A field that changes this breaks importers,
// even if it is unexported.
func incomparable(s *types.Struct) string {
	if types.Comparable(s) {
		return ""
	}
	return " // not comparable"
}

// sealed marks an interface that other packages cannot implement.
func sealed(i *types.Interface) string {
	for method := range i.Methods() {
		if !method.Exported() {
			return " // sealed"
		}
	}
	return ""
}

func (l *listing) fields(owner string, s *types.Struct) {
	for i := range s.NumFields() {
		switch f := s.Field(i); {
		case !f.Exported():
		case s.Tag(i) != "":
			l.add("field %s.%s %s `%s`", owner, f.Name(), l.of(f.Type()), s.Tag(i))
		default:
			l.add("field %s.%s %s", owner, f.Name(), l.of(f.Type()))
		}
	}
}

// methods lists the methods of values and of pointers, including promoted ones.
func (l *listing) methods(owner string, named *types.Named) {
	values := types.NewMethodSet(named)
	all := types.NewMethodSet(types.NewPointer(named))
	for method := range all.Methods() {
		m, ok := method.Obj().(*types.Func)
		if !ok || !m.Exported() {
			continue
		}
		receiver := "*" + owner
		if values.Lookup(l.pkg, m.Name()) != nil {
			receiver = owner
		}
		l.method(receiver, m)
	}
}

func (l *listing) method(receiver string, m *types.Func) {
	if m.Exported() {
		l.add("method (%s) %s%s", receiver, m.Name(), l.signature(m.Type()))
	}
}
