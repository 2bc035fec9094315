//go:build unix && !aix && !solaris

package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/go-redlock/redlock"
)

// plan is what `run` was asked to do.
type plan struct {
	name    string
	ttl     time.Duration
	wait    time.Duration
	grace   time.Duration
	owner   string
	noFence bool
	guard   *time.Duration // maxTTL; 0: none
	urls    []string
	program string // where COMMAND was found
	command []string

	line *waitLine // what a person sees of the wait
}

// planRun reads the words. When ok is false the call is over with that status.
func planRun(c *call) (p *plan, exit int, ok bool) {
	f := newForm(c, runText)
	p = &plan{}
	given := nodesFlag(f.FlagSet)
	f.DurationVar(&p.ttl, "ttl", -1, "how long the lock lives unless it is extended (default: 30s, or --guard's\n"+
		"maxTTL where that is less)")
	f.DurationVar(&p.wait, "wait", time.Minute, "how long to wait for it; 0 is one attempt (default: 1m)")
	f.DurationVar(&p.grace, "grace", -1, "how long the command has to end when the lock is lost, at most half of\n"+
		"--ttl (default: a third of it, at most 5s)")
	f.StringVar(&p.owner, "owner", defaultOwner(), "a `label` by which others see who holds it (default: host/pid)")
	f.BoolVar(&p.noFence, "no-fence", false, "have no number counted: REDLOCK_FENCE is empty")
	p.guard = guardFlag(f.FlagSet)
	words, command, dashed, exit, done := f.read()
	if done {
		return nil, exit, false
	}
	switch {
	case len(words) == 0:
		return nil, c.misused("a NAME is needed, and behind it -- and a COMMAND"), false
	case !dashed || len(words) > 1:
		return nil, c.misused("one NAME, then --, then the COMMAND: %q is not that", strings.Join(words, " ")), false
	case len(command) == 0:
		return nil, c.misused("there is no COMMAND behind the --"), false
	}
	p.name, p.command = words[0], command
	var err error
	if p.urls, err = c.nodes(*given); err != nil {
		return nil, c.misused("%v", err), false
	}
	if err := p.bound(); err != nil {
		return nil, c.misused("%v", err), false
	}
	if exit := p.find(c); exit != exitOK {
		return nil, exit, false // before the lock is taken: nobody should wait for this
	}
	return p, exitOK, true
}

const (
	usualTTL = 30 * time.Second
	maxGrace = 5 * time.Second
	// slack is taken off the validity's end for what a signal and a scheduler take.
	maxSlack = 100 * time.Millisecond
)

// bound checks what the library can't know of. It checks the TTL itself.
func (p *plan) bound() error {
	if p.ttl == -1 {
		p.ttl = usualTTL
		if *p.guard > 0 {
			p.ttl = min(p.ttl, *p.guard)
		}
	}
	if p.grace == -1 {
		p.grace = min(maxGrace, p.ttl/3)
	}
	switch {
	case p.wait < 0:
		return errors.New("--wait can't be negative")
	case p.grace < 0 || p.grace > p.ttl/2:
		return errors.New("--grace can be from 0 to half of --ttl: " + (p.ttl / 2).String())
	}
	return nil
}

// slack is how long before the validity ends the last of the command is killed.
func (p *plan) slack() time.Duration { return min(maxSlack, p.ttl/20) }

// margin is how long before the end of the validity the command is told to end. It
// is half of the TTL at most, which leaves time to extend.
func (p *plan) margin() time.Duration { return min(p.grace+p.slack(), p.ttl/2) }

// nodeTimeout leaves time for several attempts to extend, as the library's default does.
func (p *plan) nodeTimeout() time.Duration {
	return min(max(p.ttl/4, time.Millisecond), coldTimeout)
}

// options are the Locker's.
func (p *plan) options() []redlock.Option {
	opts := append(guarding(*p.guard), redlock.WithOwner(p.owner), redlock.WithNodeTimeout(p.nodeTimeout()))
	if !p.noFence {
		opts = append(opts, redlock.WithFencing())
	}
	return opts
}

// environment is what COMMAND is told. What a run around this one was given is not its
// own: without a fence the variable is empty.
func (p *plan) environment(lock *redlock.Lock) []string {
	fence := ""
	if n := lock.Fence(); n != 0 {
		fence = strconv.FormatUint(n, 10)
	}
	return []string{"REDLOCK_NAME=" + p.name, "REDLOCK_TOKEN=" + lock.Token(), "REDLOCK_FENCE=" + fence}
}

// find looks for COMMAND as a shell does.
func (p *plan) find(c *call) int {
	path, err := exec.LookPath(p.command[0])
	switch {
	case err == nil || errors.Is(err, exec.ErrDot): // a shell takes what stands in "." too
		p.program = path
		return exitOK
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		c.say("%s: not found", p.command[0])
		return exitNotFound
	default:
		c.say("%s: can't be executed: %v", p.command[0], errors.Unwrap(err))
		return exitNotExecutable
	}
}

// defaultOwner is host/pid, as far as that is a label.
func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '-'
		}
		return r
	}, host)
	return host[:min(len(host), 48)] + "/" + strconv.Itoa(os.Getpid())
}
