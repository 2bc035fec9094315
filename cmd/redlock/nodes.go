package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/internal/env"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// nodeFlags are the flags that name the nodes and how to reach them.
type nodeFlags struct {
	list, file        *string
	cacert, cert, key *string
}

func nodesFlags(f *pflag.FlagSet) nodeFlags {
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

// users returns the user of each node. A URL without one, or one that cannot be read, has the default user.
func (n nodeList) users() (users []string) {
	for _, url := range n.urls {
		cfg, _ := pool.ParseURL(url)
		users = append(users, cmp.Or(cfg.Username, "default"))
	}
	return users
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
	errEmbedded = errors.New("--embedded uses its own nodes and excludes --nodes and --nodes-file")
)

// nodes reads the list of nodes. A flag takes precedence over the variables. Two lists are
// refused: clients that use different ones do not exclude each other.
func (inv *invocation) nodes(given nodeFlags) (n nodeList, err error) {
	switch list, file := *given.list, *given.file; {
	case list != "" && file != "":
		return n, errors.New("--nodes and --nodes-file are both given: one of them is enough")
	case list != "":
		n.urls, err = env.SplitNodes(list)
	case file != "":
		n.urls, err = env.ReadNodesFile("--nodes-file", file)
	default:
		n.urls, err = env.ReadNodes(inv.getenv)
	}
	if errors.Is(err, env.ErrNoNodes) {
		err = errNoNodes
	}
	if err != nil {
		return n, err
	}
	if *given.list != "" && slices.ContainsFunc(n.urls, hasPassword) {
		inv.say("a password in --nodes can be read by other users of this machine: use --nodes-file, REDLOCK_NODES_FILE or REDLOCK_NODES")
	}
	if n.tls, err = given.tlsConfig(); err == nil && n.tls != nil && !slices.ContainsFunc(n.urls, isEncrypted) {
		err = errors.New("--cacert, --cert and --key need a node with a rediss URL")
	}
	return n, err
}

func isEncrypted(url string) bool { return strings.HasPrefix(strings.ToLower(url), "rediss") }

// hasPassword reports whether a URL contains a password.
func hasPassword(url string) bool {
	cfg, err := pool.ParseURL(url)
	return err == nil && (cfg.Password != "" || cfg.Sentinels != nil && cfg.Sentinels.Password != "")
}
