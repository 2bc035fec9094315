// Package env reads the environment variables that name the nodes and the settings that all clients of
// the same locks share. The command and redlock.OpenEnv read the same ones.
package env

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/nodelist"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// The variables.
const (
	Nodes     = "REDLOCK_NODES"      // URLs, separated by commas
	NodesFile = "REDLOCK_NODES_FILE" // the name of a file with such a list, or with one URL per line
	Prefix    = "REDLOCK_PREFIX"     // redlock.WithKeyPrefix
	Guard     = "REDLOCK_GUARD"      // redlock.WithRestartGuard
)

// ErrNoNodes reports that neither Nodes nor NodesFile is set.
var ErrNoNodes = errors.New("no nodes: set " + Nodes + " or " + NodesFile)

var errEmptyURL = errors.New("the list of nodes contains an empty URL")

// ReadNodes returns the URLs of Nodes or NodesFile. It refuses two lists, because clients that use
// different ones do not exclude each other. Its errors show no URL, which may contain a password.
func ReadNodes(getenv func(string) string) ([]string, error) {
	list, file := getenv(Nodes), getenv(NodesFile)
	switch {
	case strings.TrimSpace(list) != "" && file != "":
		return nil, errors.New(Nodes + " and " + NodesFile + " are both set: unset one of them")
	case file != "":
		return ReadNodesFile(NodesFile, file)
	}
	return SplitNodes(Nodes, list)
}

// SplitNodes returns the URLs of a list. from is the flag or variable that has the list, or names its file. It returns
// ErrNoNodes if the list is blank. Its errors name from and the position of a URL.
func SplitNodes(from, list string) ([]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, ErrNoNodes
	}
	urls := nodelist.Split(list)
	if err := check(urls); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return urls, nil
}

// check returns an error that says of each URL what is wrong with it. Of one with something around it, it says only that.
func check(urls []string) error {
	if slices.Contains(urls, "") {
		return errEmptyURL
	}
	if err := checkAround(urls); err != nil {
		return err
	}
	_, err := nodelist.Parse(urls)
	return err
}

// ReadNodesFile returns the URLs in a file. from is the flag or variable that names the file. No
// error quotes what the file contains, nor a URL that was given in place of the file's name.
func ReadNodesFile(from, file string) ([]string, error) {
	if strings.Contains(file, "://") {
		return nil, fmt.Errorf("%s takes the name of a file, not a URL", from)
	}
	text, err := ReadFile(from, file)
	if err != nil {
		return nil, err
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: %s is empty", from, oneline.Printable(file))
	}
	return SplitNodes(from, strings.Join(lines, ","))
}

// ReadGuard returns the value of Guard, or 0 if it is not set. No error quotes a value that is no number: it
// may be a URL that was meant for another variable.
func ReadGuard(getenv func(string) string) (time.Duration, error) {
	text := strings.TrimSpace(getenv(Guard))
	if text == "" {
		return 0, nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", Guard, err)
	}
	return d, nil
}

// ParseDuration is time.ParseDuration with an error that names the units.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "0123456789.") == "" {
		return 0, fmt.Errorf("a duration needs a unit: %[1]sms, %[1]ss, %[1]sm or %[1]sh", text)
	}
	return 0, errors.New("a duration is needed, with the units ms, s, m and h, like 500ms, 30s or 1h30m")
}

// maxFile is the largest size of a file that is read, in bytes.
const maxFile = 1 << 20

// ReadFile reads the file that a flag or a variable names, of at most 1 MiB. Its errors do not quote a
// value with an @, which may be a URL without its scheme.
func ReadFile(from, file string) ([]byte, error) {
	shown := oneline.Printable(file)
	if strings.Contains(file, "@") {
		shown = "the file"
	}
	text, err := readAtMost(file, maxFile)
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s can't be read: %w", from, shown, err)
	}
	return text, nil
}

func readAtMost(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return text, err
}
