package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// list is the API of a package, sorted: constants with their values, variables,
// functions, types, and of types the exported fields and methods.
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

// of writes a type as this package would: its own names without a package.
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

// incomparable says of a struct that it can't be compared: a field that changes that
// breaks importers, also an unexported one.
func incomparable(s *types.Struct) string {
	if types.Comparable(s) {
		return ""
	}
	return " // not comparable"
}

// sealed says of an interface that other packages can't implement it.
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

// methods are those of values and of pointers, promoted ones included.
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
