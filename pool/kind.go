package pool

import (
	"context"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/session"
)

// kind is where a node differs from a master at a fixed address. A master has the kind single, and
// the other kinds embed it: a sentinelResolver, a cluster, and a shard of a cluster.
type kind interface {
	// start begins to dial, until ctx is done.
	start(ctx context.Context)
	// stop ends what start began, apart from the pipelines. It may be called more than once.
	stop()

	// Submit queues a command, and another one right behind it unless that is nil: see command.Node.
	//
	// While the first dial is in progress, or one after a connection that worked, commands wait for
	// it. After a failed dial they are not taken. Undos are kept until they are answered or their
	// NotAfter has passed.
	//
	// An unfit node takes no commands but undos (ErrUnfit). While health checks fail, it takes no commands
	// but undos and extensions. Membership.Unsafe makes an exception.
	Submit(c, behind *command.Command) error
	// WhyNotVoting returns why the node would not vote now, or nil if it would, as far as it knows without asking
	// the server. An acquire that the server answered by an error counts until it answers another one by a vote,
	// or is dialled again.
	WhyNotVoting() error
	// Subscribe returns a subscription without channels. It ends at the latest with the node, but only its own
	// Close waits for its goroutines.
	Subscribe(listener command.Listener) command.Subscription
	// rejectReason returns why no command is sent to the server at address.
	rejectReason(address string) error
	// redirect moves a command to another server if err, its reply, says so. After true the command
	// must not be touched. Only the reader calls it.
	redirect(c *command.Command, err error) bool
	// checkReply returns what the reply of the server at address counts as.
	checkReply(c *command.Command, address string, r command.Reply) command.Reply
	// connEnded is told that a connection ended or could not be made.
	connEnded(pl *pipeline)

	// severalSlots reports whether a script may use keys of several slots: those of other locks, or the
	// restart guard's marker.
	severalSlots() bool
	// faults returns what keeps the server from voting, by its facts.
	faults(f command.Facts) []command.Fault
	// servers returns the servers of the node: see door.ServersOf.
	servers(ctx context.Context) (door.Servers, error)
	// addStats adds the counters that are not those of the node's pipelines.
	addStats(s *Stats)
}

// single is the kind of a master at a fixed address.
type single struct{ node *Node }

func (k single) start(ctx context.Context) {
	n := k.node
	n.pipeline = newPipeline(n)
	n.workers.Go(func() { n.pipeline.run(ctx) })
}

func (single) stop() {}

func (k single) Submit(c, behind *command.Command) error { return k.node.pipeline.submit(c, behind) }

func (k single) WhyNotVoting() error { return k.node.pipeline.whyNotVoting() }

func (k single) Subscribe(listener command.Listener) command.Subscription {
	return k.node.subscribe(listener)
}

func (single) rejectReason(string) error { return nil }

func (single) redirect(*command.Command, error) bool { return false }

func (single) checkReply(_ *command.Command, _ string, r command.Reply) command.Reply { return r }

func (single) connEnded(*pipeline) {}

func (single) severalSlots() bool { return true }

func (k single) faults(f command.Facts) []command.Fault {
	return session.Faults(k.node.label, k.node.cfg.Database, f)
}

func (k single) servers(context.Context) (door.Servers, error) {
	return door.Servers{All: []door.Server{server(k)}}, nil
}

func (single) addStats(*Stats) {}
