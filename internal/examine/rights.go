package examine

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/visit"
	"github.com/quorumlock/go-redlock/pool"
)

// probes returns calls that try every right that the Locker needs. Those of a waiter come last, because
// afterwards the connection may accept no other command, not even a SCAN.
func (q *Question) probes(found *Diagnosis, cluster bool) []visit.Call {
	calls := append(probeRights(found, q.Key), q.keyRights(found, cluster)...)
	try := probe(found, q.Key)
	if cluster { // to read the slot map, and to follow a redirect
		calls = append(calls, try("cluster|slots", "CLUSTER", "SLOTS"), try("asking", "ASKING"))
	}
	if !q.Scan {
		channel := command.FreePrefix + q.Key
		calls = append(calls, try("subscribe", "SUBSCRIBE", channel), try("unsubscribe", "UNSUBSCRIBE", channel))
	}
	return calls
}

// probeRights returns calls that try every command of this library without any change: on a key that
// does not exist, or with an invalid argument. Servers check the right to a command before anything
// else, so even an invalid one shows whether the right is missing.
func probeRights(found *Diagnosis, key string) []visit.Call {
	try := probe(found, key)
	const nothing = "return 0"
	channel := command.FreePrefix + key
	return []visit.Call{
		try("set", "SET", key, "", "XX", "PX", 1), // XX: only if the key exists
		try("get", "GET", key),
		try("del", "DEL", key),
		try("exists", "EXISTS", key),
		try("type", "TYPE", key),
		try("strlen", "STRLEN", key),
		try("pttl", "PTTL", key),
		try("pexpire", "PEXPIRE", key, 1),
		try("ping", "PING"),
		try("eval", "EVAL", nothing, 0),
		try("evalsha", "EVALSHA", strings.Repeat("0", 40), 0),
		try("script|load", "SCRIPT", "LOAD", nothing),
		try("time", "TIME"),
		try("info", "INFO", "server"),
		try("client|id", "CLIENT", "ID"),
		try("client|setname", "CLIENT", "SETNAME", "go-redlock"),
		try("client|info", "CLIENT", "INFO"),
		// No client has this ID: servers count them from 1. The ID must not be 0, which before
		// Redis 6.2 is no filter at all, and closes all connections.
		try("client|kill", "CLIENT", "KILL", "ID", int64(math.MaxInt64)),
		try("publish", "PUBLISH", channel, ""),
		try("pubsub|numsub", "PUBSUB", "NUMSUB", channel),
		try("mget", "MGET", key),
	}
}

// keyRights returns calls that try the rights to read and write the keys other than the lock's. The
// marker may exist, so PEXPIRE is given an argument that is not a number, which changes nothing.
func (q *Question) keyRights(found *Diagnosis, cluster bool) (calls []visit.Call) {
	// Without a prefix the user may have the right to some counters only, so this one proves
	// nothing.
	if !unprefixed(q.Key) {
		for _, counter := range q.Counters {
			calls = append(calls, probe(found, counter)("pexpire", "PEXPIRE", counter, 1))
		}
	}
	try := probe(found, guard.Key)
	switch {
	case cluster: // no script reads a marker there
		return calls
	case q.Guard != nil:
		return append(calls, try("pexpire", "PEXPIRE", guard.Key, "no number"))
	}
	return append(calls, try("get", "GET", guard.Key))
}

// probe returns a function that makes calls. Each records in found whether the right to a command, to
// the key or to its channel is missing.
func probe(found *Diagnosis, key string) func(right, name string, args ...any) visit.Call {
	return func(right, name string, args ...any) visit.Call {
		return visit.Call{Name: name, Args: args, Take: func(_ any, err error) error {
			if err == nil {
				return nil
			}
			// The cases are ordered: a command that the server does not know cannot be granted by a
			// right.
			missing := ""
			// Any other error, such as a wrong type or argument, shows that the right is there.
			switch {
			case isUnknownCommand(err):
				if !slices.Contains(found.UnknownCommands, right) {
					found.UnknownCommands = append(found.UnknownCommands, right)
				}
				return nil
			case forbids(err, "command"):
				missing = right
			case forbids(err, "channel"):
				missing = "&" + command.FreePrefix + pattern(key)
			case forbids(err, "key") && !unprefixed(key):
				missing = "~" + pattern(key)
			case right == "set" && refuses(err):
				found.Refuses = err.Error()
			}
			if missing != "" && !slices.Contains(found.MissingRights, missing) {
				found.MissingRights = append(found.MissingRights, missing)
			}
			return nil
		}}
	}
}

// isUnknownCommand reports whether the server does not know a command or subcommand, because it is
// too old or its rename-command setting removed it.
func isUnknownCommand(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.HasPrefix(text, "err unknown command") || strings.HasPrefix(text, "err unknown subcommand")
}

// refuses reports whether a server refuses a SET with valid arguments, although the user has the right and the
// key's slot is there. So it refuses that of an acquire, too.
func refuses(err error) bool {
	var se *pool.ServerError
	return errors.As(err, &se) && !slices.Contains([]string{"NOPERM", "MOVED", "ASK", "CLUSTERDOWN"}, se.Code)
}

// unprefixed reports whether lock keys have no prefix in common. Then the user may have rights to
// some of them, so a denied right to the key of the examination proves nothing.
func unprefixed(key string) bool { return strings.HasPrefix(key, KeyPrefix) }

// pattern returns the ACL pattern of the lock keys that have the same prefix as the probed key.
func pattern(key string) string {
	prefix, _, random := strings.Cut(key, KeyPrefix)
	if !random {
		return key
	}
	return prefix + "*"
}

// forbids reports whether a server denies the right to a command, a key or a channel.
func forbids(err error, what string) bool {
	var se *pool.ServerError
	return errors.As(err, &se) && se.Code == "NOPERM" && strings.Contains(se.Text, what)
}
