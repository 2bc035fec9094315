package examine

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/visit"
	"github.com/quorumlock/go-redlock/pool"
)

// Admission is what became of the admission of a node.
type Admission uint8

// The results of an admission. Only Admitted changes the node; Unanswered may have.
const (
	Failed     Admission = iota // surely not executed
	Unanswered                  // sent, and not answered by a reply that tells
	Admitted                    // the node has a marker that lets it vote
	Marked                      // it had another marker already
	NoMaster                    // it is a replica
)

// Admit marks a node without a marker as fit to vote. It admits only the server, in the run, that was found,
// and only until an instant of the server's TIME, in Unix microseconds. An admission that is executed late
// therefore admits nothing that has changed since. The error is the reason of Failed. A node with the guard has
// one server.
func Admit(ctx context.Context, n door.Node, g *guard.Settings, found *Diagnosis, until int64) (Admission, error) {
	servers, err := visit.Servers(ctx, n)
	if err != nil {
		return Failed, err
	}
	conn, err := visit.Dial(ctx, servers.All[0])
	if err != nil {
		return Failed, err
	}
	defer conn.Close()
	hash := ""
	err = conn.Run(ctx, visit.Call{Name: "SCRIPT", Args: []any{"LOAD", admit}, Take: func(reply any, err error) error {
		hash, _ = redis.String(reply, err) // or the user may not load scripts
		return nil
	}})
	if err != nil {
		return Failed, err
	}
	marker := g.Marker(found.RunID, found.ReplID2, n.Name())
	args := []any{1, guard.Key, guard.Version, g.Shared(n.Name()), marker, until}
	if hash != "" { // a user may have the right to EVALSHA alone
		result, err := run(ctx, conn, "EVALSHA", hash, args)
		var se *pool.ServerError
		if !errors.As(err, &se) || se.Code != "NOSCRIPT" {
			return result, err
		}
	}
	return run(ctx, conn, "EVAL", admit, args)
}

// run executes the script.
func run(ctx context.Context, conn *visit.Conn, name, script string, args []any) (Admission, error) {
	result := Unanswered
	err := conn.Run(ctx, visit.Call{Name: name, Args: append([]any{script}, args...), Take: func(reply any, err error) error {
		result = Failed // the script writes last
		if err == nil {
			result = admission(reply)
		}
		return err
	}})
	return result, err
}

// admission reads the script's reply.
func admission(reply any) Admission {
	words, _ := redis.Strings(reply, nil)
	if len(words) == 0 {
		return Unanswered
	}
	switch words[0] {
	case "ok":
		return Admitted
	case "marked":
		return Marked
	case "replica":
		return NoMaster
	}
	return Unanswered
}

// admit ends no quarantine (docs/dev/rules.md rule 17). Another admission may have marked the node meanwhile: then
// the node is admitted.
const admit = command.ReadServer + `
local clock = redis.call('TIME')
local marker = redis.call('GET', KEYS[1])
if marker and marker ~= head .. 'ok' then return {'marked'} end
if head .. 'ok' ~= ARGV[3] then return redis.error_reply('ERR redlock: not the server that was looked at, or not its run') end
if clock[1] * 1000000 + clock[2] > tonumber(ARGV[4]) then return redis.error_reply('ERR redlock: the question came too late') end
redis.call('SET', KEYS[1], head .. 'ok')
return {'ok'}
`
