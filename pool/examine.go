package pool

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/wallclock"
)

// maxExaminations bounds the examinations that run at once on a node: each has a connection.
const maxExaminations = 8

// examineLimit counts the goroutines that answer Examine.
type examineLimit struct {
	// mu guards closed and inFlight, and orders done.Add before close: Node.Close waits for done
	// after close, and a WaitGroup forbids an Add from zero during a Wait. No callback runs
	// under mu.
	mu       sync.Mutex
	closed   bool
	inFlight int
	done     sync.WaitGroup
}

// begin returns ErrClosed or ErrQueueFull if no other examination may start. After nil the caller
// must call end.
func (e *examineLimit) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return ErrClosed
	// A caller that examines again and again must not open connections without end.
	case e.inFlight == maxExaminations:
		return ErrQueueFull
	}
	e.inFlight++
	e.done.Add(1)
	return nil
}

// end makes room for the next examination. Done comes last: when the node's Close returns, nothing
// of this goroutine may be left to run.
func (e *examineLimit) end() {
	e.mu.Lock()
	e.inFlight--
	e.mu.Unlock()
	e.done.Done()
}

// close makes every later begin fail. It does not wait for the examinations that run.
func (e *examineLimit) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

// examine answers an Examine over a connection of its own. So it can report on a server whatever
// the state of the pipelined connection is, and why the server can't be dialled. The dial timeout
// and the command's not-after instant bound it. A scan for locks that the command asks for may
// take longer, as long as the server answers.
func (n *Node) examine(c *command.Command) {
	err := n.exams.begin()
	if err != nil {
		c.Fail(err)
		return
	}
	// A goroutine of its own: Submit must not wait for a dial.
	go func() {
		defer n.exams.end()
		// A command without a clock has no end of its own, so the dial timeout is the only bound.
		bound, cause := n.cfg.DialTimeout, error(nil)
		if c.Clock != nil {
			if own := c.NotAfter.Sub(c.Clock.Now()); own < bound {
				bound, cause = own, command.ErrTimeout
			}
		}
		ctx, cancel := context.WithTimeoutCause(n.life, bound, cause)
		defer cancel()
		// Before the dial: a command that its caller has given up must not cost a connection.
		if !c.MarkSent() {
			c.Fail(command.ErrGivenUp)
			return
		}
		found, err := n.kind.examine(ctx, c.Request)
		if err != nil {
			// Failed and not Unknown: an examination writes nothing that would have to be undone.
			c.Answer(command.Reply{Outcome: command.Failed, Err: withoutContextError(err)})
			return
		}
		c.Answer(command.Reply{Outcome: command.Granted, Diagnosis: found})
	}()
}

// examineServer dials, reads everything, and closes the connection.
func (n *Node) examineServer(ctx context.Context, r *command.Request) (*command.Diagnosis, error) {
	s, err := n.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	found, err := n.examineWith(ctx, s, r)
	if err == nil && r.ScanContext() != nil {
		err = n.scanForLocks(r.ScanContext(), s, found) //nolint:contextcheck // it lasts longer than ctx
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// examineWith sends everything that takes a few round trips only, which ctx bounds.
func (n *Node) examineWith(ctx context.Context, s *rawConn, r *command.Request) (*command.Diagnosis, error) {
	f, err := n.handshake(ctx, s)
	if err != nil {
		return nil, err
	}
	// handshake stopped its own AfterFunc when it returned; this one covers the steps below.
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	found := &command.Diagnosis{Facts: f.Facts}
	if err := n.measureClock(s, found); err != nil {
		return nil, n.abortReason(ctx, err)
	}
	// All of the probes go out in one flush, so a report costs few round trips to each node.
	steps := append(readConfig(found), probeRights(found, r.Keys[0])...)
	steps = append(steps, n.keyRights(found, r)...)
	steps = append(steps, n.kind.probes(found, r.Keys[0])...)
	if r.ScanContext() == nil { // a connection that has subscribed can't SCAN
		steps = append(steps, probePubSub(found, r.Keys[0])...)
	}
	if err := s.run(steps); err != nil {
		return nil, n.abortReason(ctx, err)
	}
	found.Findings = append(n.kind.findings(found.Facts), doctorFindings(n.label, found, r)...)
	// After the network part: what it adds is then as recent as the facts.
	n.kind.addFindings(found, s.address)
	return found, nil
}

// measureClock sends TIME alone, so that the round trip is that of one command. It compares the
// node's clock with that of this machine in the middle of the round trip.
func (n *Node) measureClock(s *rawConn, found *command.Diagnosis) error {
	var theirs int64
	// The duration is measured by the steady clock. Only the difference to the node needs the wall
	// clock.
	began, ours := n.cfg.Clock.Now(), wallclock.Micros()
	err := s.run([]step{{"TIME", nil, func(reply any, err error) error {
		theirs = serverTime(reply, err)
		return nil
	}}})
	if err != nil {
		return err
	}
	found.RoundTrip = n.cfg.Clock.Now().Sub(began)
	ours += found.RoundTrip.Microseconds() / 2
	// Without the right to TIME there is nothing to compare.
	if found.ClockRead = theirs != 0; found.ClockRead {
		found.Time, found.Offset = theirs, time.Duration(theirs-ours)*time.Microsecond
	}
	return nil
}

// readConfig returns the steps that read settings which INFO does not contain. A user without the
// right to CONFIG GET gets none of them, which is no error.
func readConfig(found *command.Diagnosis) []step {
	read := func(setting string, take func(value string)) step {
		return step{"CONFIG", []any{"GET", setting}, func(reply any, err error) error {
			pair, err := redis.Strings(reply, err)
			// A server that does not know the setting answers with an empty list.
			if err == nil && len(pair) == 2 {
				found.Configured = true
				// The value appears in reports, and a server can send anything.
				take(oneline.Printable(pair[1]))
			}
			return nil
		}}
	}
	return []step{
		read("appendfsync", func(v string) { found.Fsync = v }),
		read("save", func(v string) { found.Snapshots = v != "" }),
		read("repl-backlog-ttl", func(v string) { found.BacklogTTL = v }),
	}
}

// probeRights returns steps that try every command of this library without any change: on a key that
// does not exist, or with an invalid argument. Servers check the right to a command before anything
// else, so even an invalid one shows whether the right is missing.
func probeRights(found *command.Diagnosis, key string) []step {
	try := probe(found, key)
	const nothing = "return 0"
	channel := command.FreePrefix + key
	return []step{
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

// probePubSub returns steps that try the rights of a waiter. They come last, because afterwards the
// connection may accept no other command.
func probePubSub(found *command.Diagnosis, key string) []step {
	try, channel := probe(found, key), command.FreePrefix+key
	return []step{try("subscribe", "SUBSCRIBE", channel), try("unsubscribe", "UNSUBSCRIBE", channel)}
}

// keyRights returns steps that try the rights to read and write the keys other than the lock's. The
// marker may exist, so PEXPIRE is given an argument that is not a number, which changes nothing.
func (n *Node) keyRights(found *command.Diagnosis, r *command.Request) (steps []step) {
	// Without a prefix the user may have the right to some counters only, so this one proves
	// nothing.
	if !unprefixed(r.Keys[0]) {
		for _, counter := range r.Keys[1:] {
			steps = append(steps, probe(found, counter)("pexpire", "PEXPIRE", counter, 1))
		}
	}
	if !n.kind.severalSlots() {
		return steps
	}
	try := probe(found, guard.Key)
	if r.NodeSet != nil && r.NodeSet.Guard != nil {
		return append(steps, try("pexpire", "PEXPIRE", guard.Key, "no number"))
	}
	return append(steps, try("get", "GET", guard.Key))
}

// probe returns a function that makes steps. Each records in found whether the right to a command, to
// the key or to its channel is missing.
func probe(found *command.Diagnosis, key string) func(right, name string, args ...any) step {
	return func(right, name string, args ...any) step {
		return step{name, args, func(_ any, err error) error {
			if err == nil {
				return nil
			}
			// The cases are ordered: a command that the server does not know cannot be granted by a
			// right.
			missing := ""
			// Any other error, such as a wrong type or argument, shows that the right is there.
			switch err := serverError(err); {
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

// unprefixed reports whether lock keys have no prefix in common. Then the user may have rights to
// some of them, so a denied right to the key of the examination proves nothing.
func unprefixed(key string) bool { return strings.HasPrefix(key, command.DoctorPrefix) }

// pattern returns the ACL pattern of the lock keys that have the same prefix as the probed key.
func pattern(key string) string {
	prefix, _, random := strings.Cut(key, command.DoctorPrefix)
	if !random {
		return key
	}
	return prefix + "*"
}

// forbids reports whether a server denies the right to a command, a key or a channel.
func forbids(err error, what string) bool {
	return answeredBy(err, "NOPERM") && strings.Contains(err.Error(), what)
}
