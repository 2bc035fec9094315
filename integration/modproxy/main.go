// Modproxy writes the modules that users can import or install into a folder, in the form of a module proxy, as if
// a commit had been published as a version. `GOPROXY=file://FOLDER` then serves them: so a test can
// install them as a user does.
//
// usage: modproxy [-revision HEAD] VERSION FOLDER
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	revision := flag.String("revision", "HEAD", "the commit")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(".", *revision, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "modproxy:", err)
		os.Exit(1)
	}
}

// write writes the library, the command and every module in contrib of a repository's commit.
func write(repository, revision, version, folder string) error {
	top, err := git(repository, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root := strings.TrimSpace(string(top))
	list, err := git(root, "ls-tree", "-r", "--name-only", revision)
	if err != nil {
		return err
	}
	for path := range strings.FieldsSeq(string(list)) {
		where, isModule := strings.CutSuffix(path, "go.mod")
		if !isModule || where != "" && where != "cmd/redlock/" && !strings.HasPrefix(where, "contrib/") {
			continue
		}
		if err := writeModule(root, revision, strings.TrimSuffix(where, "/"), version, folder); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// writeModule writes the four files by which a proxy serves a version of a module.
func writeModule(root, revision, where, version, folder string) error {
	text, err := git(root, "show", revision+":"+filepath.ToSlash(filepath.Join(where, "go.mod")))
	if err != nil {
		return err
	}
	this := module.Version{Path: modfile.ModulePath(text), Version: version}
	var code bytes.Buffer
	if err := zip.CreateFromVCS(&code, this, root, revision, where); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(this.Path)
	if err != nil {
		return err
	}
	at := filepath.Join(folder, escaped, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": text, version + ".zip": code.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			return err
		}
	}
	fmt.Println(this)
	return nil
}

func git(folder string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = folder
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}
