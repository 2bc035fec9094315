package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func listOf(t *testing.T, source string) string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", "package x\n"+source, 0)
	require.NoError(t, err)
	p, err := new(types.Config).Check("x", fset, []*ast.File{f}, nil)
	require.NoError(t, err)
	return strings.Join(list(p), "\n")
}

func TestEverythingThatAUserCanNameIsListed(t *testing.T) {
	got := listOf(t, `
		const Most = 3
		var ErrGone error
		func Open(urls []string, opts ...Option) (*Lock, error) { return nil, nil }
		type Option interface{ apply() }
		type Node interface { Name() string }
		type Lock struct { Names []string; hidden int; base }
		type base struct{}
		func (b *base) Promoted() {}
		func (l Lock) String() string { return "" }
		func (l *Lock) Release() error { return nil }
		func (l *Lock) secret() {}
		type Outcome uint8
		type Grade = Outcome
		type hidden struct{}`)
	assert.Equal(t, strings.Join([]string{
		"const Most untyped int = 3",
		"field Lock.Names []string",
		"func Open(urls []string, opts ...Option) (*Lock, error)",
		"method (*Lock) Promoted()",
		"method (*Lock) Release() error",
		"method (Lock) String() string",
		"method (Node) Name() string",
		"type Grade = Outcome",
		"type Lock struct // not comparable",
		"type Node interface",
		"type Option interface // sealed",
		"type Outcome uint8",
		"var ErrGone error",
	}, "\n"), got)
}
