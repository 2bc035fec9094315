package redlock

import (
	"os"

	"github.com/quorumlock/go-redlock/internal/env"
	"github.com/quorumlock/go-redlock/internal/nodelist"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/pool"
)

// Open makes a Locker and a pool.Node for each URL (see pool.ParseURL). Open dials in the background, so
// an unreachable node is not an error. Errors match ErrInvalid. They identify a wrong URL by its
// position, counted from 1, and show no password.
func Open(urls []string, opts ...Option) (*Locker, error) {
	set, wrong := settingsOf(opts)
	configs, err := parseAll(urls, set)
	if err := joinInvalid(wrong, err); err != nil {
		return nil, err // nothing has been dialled yet
	}
	nodes := make([]*pool.Node, 0, len(urls))
	for _, cfg := range configs {
		n, err := pool.Open(cfg)
		if err != nil {
			return nil, oneline.Join(invalid("%w", err), closeAll(nodes))
		}
		nodes = append(nodes, n)
	}
	l, err := New(nodes, opts...)
	if err != nil {
		return nil, oneline.Join(err, closeAll(nodes))
	}
	return l, nil
}

// OpenEnv is Open with the settings of the environment, which are those of the command. The variables
// are REDLOCK_NODES (URLs, separated by commas) or REDLOCK_NODES_FILE (a file with the list, or with one
// URL per line), REDLOCK_PREFIX (WithKeyPrefix) and REDLOCK_GUARD (WithRestartGuard, such as "30s"). The
// opts come after them. Other than the command, a program reads URLs of Sentinels and Clusters only if it imports their
// packages: see pool.ParseURL. Errors match ErrInvalid, and show no password.
func OpenEnv(opts ...Option) (*Locker, error) {
	urls, err := env.ReadNodes(os.Getenv)
	guard, wrong := env.ReadGuard(os.Getenv)
	if err := oneline.Join(err, wrong); err != nil {
		return nil, invalid("%w", err)
	}
	given := []Option{WithKeyPrefix(os.Getenv(env.Prefix))}
	if guard != 0 {
		given = append(given, WithRestartGuard(guard))
	}
	return Open(urls, append(given, opts...)...)
}

// parseAll parses the URLs. Its error identifies wrong URLs by position, because they may contain
// passwords.
func parseAll(urls []string, set settings) ([]pool.Config, error) {
	list, err := nodelist.Parse(urls)
	encrypted := false
	for i := range list {
		cfg := &list[i]
		cfg.Clock, cfg.Logger = set.clock, set.logger
		if cfg.TLS != nil {
			encrypted = true
			set.encrypt(cfg)
		}
	}
	switch {
	case err != nil:
		return nil, invalid("%w", err)
	case set.tls != nil && !encrypted:
		return nil, invalid("WithTLSConfig: no URL has the scheme rediss")
	}
	if len(list) == 0 {
		return nil, errNoNodes
	}
	names, err := nodelist.Names(list)
	if err != nil {
		return nil, invalid("%w", err)
	}
	return list, set.checkUnsafe(names)
}
