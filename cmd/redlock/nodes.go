package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// nodeFlags are the flags that name the nodes and how to reach them.
type nodeFlags struct {
	list, file        *string
	cacert, cert, key *string
}

func nodesFlags(f *flagSet) nodeFlags {
	return nodeFlags{
		list: f.String("nodes", "", "the nodes' `URLs`, separated by commas (default: $REDLOCK_NODES)"),
		file: f.String("nodes-file", "", "a `file` with the nodes' URLs, as in --nodes or one per line (default: $REDLOCK_NODES_FILE)"),
		cacert: f.String("cacert", "", "a PEM `file` with the certificate authorities that the nodes' certificates are checked by "+
			"(default: the system's; only for rediss URLs)"),
		cert: f.String("cert", "", "a PEM `file` with the client certificate, its chain included (only for rediss URLs, with --key)"),
		key:  f.String("key", "", "a PEM `file` with the private key of --cert"),
	}
}

// given reports whether any of the flags was given.
func (n nodeFlags) given() bool {
	return slices.ContainsFunc([]*string{n.list, n.file, n.cacert, n.cert, n.key}, func(s *string) bool { return *s != "" })
}

// nodeList is the list of nodes, and how to reach them.
type nodeList struct {
	urls []string
	tls  tlsConfig // nil: as the URLs say
}

// open makes a Locker over the nodes.
func (n nodeList) open(opts ...redlock.Option) (*redlock.Locker, error) {
	if n.tls != nil {
		opts = append(opts, redlock.WithTLSConfig(n.tls))
	}
	return redlock.Open(n.urls, opts...)
}

var (
	errNoNodes = errors.New("no nodes given by --nodes, REDLOCK_NODES, --nodes-file or REDLOCK_NODES_FILE; nodes inside this " +
		"process, as the demo has them, would end with it, and a lock on them would protect nothing")
	errEmbedded  = errors.New("--embedded uses its own nodes and excludes --nodes and --nodes-file")
	errEmptyNode = errors.New("the list of nodes contains an empty URL")
)

// nodes reads the list of nodes. A flag takes precedence over the variables. Two lists are
// refused: clients that use different ones do not exclude each other.
func (inv *invocation) nodes(given nodeFlags) (n nodeList, err error) {
	list, file, name := *given.list, *given.file, "--nodes-file"
	switch variable, path := inv.getenv("REDLOCK_NODES"), inv.getenv("REDLOCK_NODES_FILE"); {
	case list != "" && file != "":
		return n, errors.New("--nodes and --nodes-file are both given: one of them is enough")
	case list != "" || file != "":
	case strings.TrimSpace(variable) != "" && path != "":
		return n, errors.New("REDLOCK_NODES and REDLOCK_NODES_FILE are both set: unset one of them")
	default:
		list, file, name = variable, path, "REDLOCK_NODES_FILE"
	}
	if file != "" {
		if list, err = readNodes(name, file); err != nil {
			return n, err
		}
	}
	if strings.TrimSpace(list) == "" {
		return n, errNoNodes
	}
	n.urls = pool.SplitURLs(list)
	if slices.Contains(n.urls, "") {
		return n, errEmptyNode
	}
	if *given.list != "" && slices.ContainsFunc(n.urls, hasPassword) {
		inv.say("a password in --nodes can be read by other users of this machine: use --nodes-file, REDLOCK_NODES_FILE or REDLOCK_NODES")
	}
	if n.tls, err = given.tlsConfig(); err == nil && n.tls != nil && !slices.ContainsFunc(n.urls, isEncrypted) {
		err = errors.New("--cacert, --cert and --key need a node with a rediss URL")
	}
	return n, err
}

// readNodes reads a list from a file. No error quotes what the file contains, which may be a
// password, nor a URL that was given in place of the file's name.
func readNodes(name, file string) (list string, err error) {
	if strings.Contains(file, "://") {
		return "", fmt.Errorf("%s takes the name of a file, not a URL", name)
	}
	text, err := readFile(name, file)
	if err != nil {
		return "", err
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(lines) == 0 {
		return "", fmt.Errorf("%s: %s is empty", name, oneline.Printable(file))
	}
	return strings.Join(lines, ","), nil
}

// maxFile is the largest size of a file that is read, in bytes.
const maxFile = 1 << 20

// readFile reads the file that a flag or a variable names. It does not quote a value with an @,
// which may be a URL without its scheme.
func readFile(name, file string) ([]byte, error) {
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
		return nil, fmt.Errorf("%s: %s can't be read: %w", name, shown, err)
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

func isEncrypted(url string) bool { return strings.HasPrefix(strings.ToLower(url), "rediss") }

// hasPassword reports whether a URL contains a password.
func hasPassword(url string) bool {
	cfg, err := pool.ParseURL(url)
	return err == nil && (cfg.Password != "" || cfg.Sentinels != nil && cfg.Sentinels.Password != "")
}
