// Package exported reads the exported names of packages from the build's export data, for the tools
// that list the API and check the documents against it.
package exported

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Packages are packages that were built, and all packages that they import.
type Packages struct {
	// Paths are the import paths of those that were asked for, in order.
	Paths []string
	types.Importer
}

// Load builds the packages of patterns, which have the form of `go list`, and reads their export
// data. An error has the compiler's text.
func Load(fset *token.FileSet, patterns ...string) (*Packages, error) {
	type entry struct {
		ImportPath, Export string
		DepOnly            bool
	}
	var stderr bytes.Buffer
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,DepOnly", "--"}, patterns...)...)
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	p := &Packages{}
	files := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var e entry
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		files[e.ImportPath] = e.Export
		if !e.DepOnly && e.Export != "" { // a folder of nothing but tests has none
			p.Paths = append(p.Paths, e.ImportPath)
		}
	}
	p.Importer = importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("%s was not built", path)
		}
		return os.Open(files[path])
	})
	return p, nil
}
