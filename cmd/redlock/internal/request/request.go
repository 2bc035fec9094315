package request

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
)

// Request is the lock that `run` and `acquire` request.
type Request struct {
	Name    string
	TTL     time.Duration
	Wait    time.Duration
	owner   string
	noFence bool
	MinHold time.Duration // 0: none
	// SkipStatus is the exit status if another client holds the lock, which is then no failure and not
	// reported. NoSkip: it is one.
	SkipStatus int
	guard      time.Duration // maxTTL; 0: no guard
	cli.NodeList

	status *waitStatus // shows the wait on a terminal
}

const (
	defaultTTL = 30 * time.Second
	// NoSkip is the SkipStatus of a holder that is a failure.
	NoSkip = -1
)

// New defines the flags that both have in common. The default owner identifies the
// holder: this process, or the process that called it.
func New(f *pflag.FlagSet, owner, whose string) *Request {
	cli.NodeFlags(f)
	cli.GuardFlag(f)
	w := &Request{SkipStatus: NoSkip}
	cli.DurationVar(f, &w.TTL, "ttl", "", -1, "the TTL of the lock (default: 30s, or the maxTTL of --guard if that is "+
		"less)")
	cli.DurationVar(f, &w.Wait, "wait", "w", time.Minute, "how long to wait for the lock; 0 is one attempt (default: 1m)")
	f.StringVar(&w.owner, "owner", owner, "a `label` that other clients see (default: host/"+whose+")")
	f.BoolVar(&w.noFence, "no-fence", false, "acquire the lock without a fence (see above)")
	return w
}

// Read reads the nodes and the guard, and checks what the library cannot know. The library
// checks the TTL.
func (req *Request) Read(c *cli.Invocation) (err error) {
	if req.NodeList, err = c.Nodes(); err != nil {
		return err
	}
	if req.guard, err = c.MaxTTL(); err != nil {
		return err
	}
	if req.TTL == -1 {
		req.TTL = defaultTTL
		if req.guard > 0 {
			req.TTL = min(req.TTL, req.guard)
		}
	}
	if req.Wait < 0 {
		return errors.New("--wait can't be negative")
	}
	return cli.CheckName(req.Name)
}

// Open makes the Locker, and the line that shows the wait.
func (req *Request) Open(c *cli.Invocation) (*redlock.Locker, error) {
	req.status = newWaitStatus(c.Stderr, req.Name)
	shortest := req.TTL // that the nodes keep a key
	if req.MinHold > 0 {
		shortest = min(shortest, req.MinHold)
	}
	opts := append(req.status.options(), redlock.WithOwner(req.owner))
	if !req.noFence {
		opts = append(opts, redlock.WithFencing())
	}
	return c.Open(req.NodeList, req.guard, cli.NodeTimeout(shortest), opts...)
}
