package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/env"
	"github.com/quorumlock/go-redlock/internal/nodelist"
	"github.com/quorumlock/go-redlock/pool"
	_ "github.com/quorumlock/go-redlock/pool/cluster" // its URLs
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// NodeList is the list of nodes, and how to reach them.
type NodeList struct {
	URLs []string
	TLS  TLSConfig // nil: as the URLs say
}

// Users returns the user of each node. A URL without one, or one that cannot be read, has the default user.
func (n NodeList) Users() (users []string) {
	for _, url := range n.URLs {
		cfg, _ := pool.ParseURL(url)
		users = append(users, cmp.Or(cfg.Username, "default"))
	}
	return users
}

// Configs returns the configuration of each node. TLS counts for those whose URL asks for it.
func (n NodeList) Configs() ([]pool.Config, error) {
	all, err := nodelist.Parse(n.URLs)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if n.TLS != nil && all[i].TLS != nil {
			all[i].SetTLS(n.TLS)
		}
	}
	return all, nil
}

// ErrNoNodes reports that neither a flag nor a variable names nodes.
var ErrNoNodes = errors.New("no nodes given by --nodes, REDLOCK_NODES, --nodes-file or REDLOCK_NODES_FILE; nodes inside this " +
	"process, as the demo has them, would end with it, and a lock on them would protect nothing")

// ErrEmbedded reports that two sets of nodes were asked for.
var ErrEmbedded = errors.New("--embedded uses its own nodes and excludes --nodes and --nodes-file")

// Nodes reads the list of nodes. A flag takes precedence over the variables. Two lists are
// refused: clients that use different ones do not exclude each other.
func (inv *Invocation) Nodes() (n NodeList, err error) {
	list, file := inv.flag("nodes"), inv.flag("nodes-file")
	switch {
	case list != "" && file != "":
		return n, errors.New("--nodes and --nodes-file are both given: one of them is enough")
	case list != "":
		n.URLs, err = env.SplitNodes("--nodes", list)
	case file != "":
		n.URLs, err = env.ReadNodesFile("--nodes-file", file)
	default:
		n.URLs, err = env.ReadNodes(inv.Getenv)
	}
	if errors.Is(err, env.ErrNoNodes) {
		err = ErrNoNodes
	}
	if err != nil {
		return n, err
	}
	if list != "" && slices.ContainsFunc(n.URLs, hasPassword) {
		inv.Say("a password in --nodes can be read by other users of this machine: use --nodes-file, REDLOCK_NODES_FILE or REDLOCK_NODES")
	}
	if n.TLS, err = newTLSConfig(inv.flag("cacert"), inv.flag("cert"), inv.flag("key")); err == nil && n.TLS != nil && !slices.ContainsFunc(n.URLs, isEncrypted) {
		err = errors.New("--cacert, --cert and --key need a node with a rediss URL")
	}
	return n, err
}

func isEncrypted(url string) bool { return strings.HasPrefix(strings.ToLower(url), "rediss") }

// hasPassword reports whether a URL contains a password.
func hasPassword(url string) bool {
	cfg, err := pool.ParseURL(url)
	behind, ok := cfg.Kind.(*sentinel.Config)
	return err == nil && (cfg.Password != "" || ok && behind.Password != "")
}

// NodesGiven reports whether a flag says which nodes are meant, or how to reach them.
func (inv *Invocation) NodesGiven() bool {
	return slices.ContainsFunc(nodeFlagNames, inv.Command.Flags().Changed)
}

// flag returns the value of a flag.
func (inv *Invocation) flag(name string) string { return inv.Command.Flag(name).Value.String() }
