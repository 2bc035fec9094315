package transport

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// redigo reads only from a boundedConn. In all programs and packages that importers and users get,
// one function makes redigo's connections.
func TestRedigoGetsNoConnectionThatIsNotBounded(t *testing.T) {
	var made []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"integration", "fakeredis", "nodetest", "bin", ".git", "testdata"}, name):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, _ := n.(*ast.SelectorExpr)
			if call == nil {
				return true
			}
			from, _ := call.X.(*ast.Ident)
			if from != nil && from.Name == "redis" && (strings.HasPrefix(call.Sel.Name, "Dial") || strings.HasPrefix(call.Sel.Name, "NewConn")) {
				made = append(made, fmt.Sprintf("%s: %s", filepath.ToSlash(path), call.Sel.Name))
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"../../internal/transport/dial.go: NewConn"}, made, "bound the new one, and add it here")
	near, far := net.Pipe()
	defer far.Close()
	c, err := (&Settings{Connect: dialTo(near)}).Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	require.NotNil(t, c.in, "it is bounded")
}
