//go:build unix && !aix && !solaris

package run

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/request"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/redlock"
)

// runOptions holds the flags and words of one call of `run`.
type runOptions struct {
	*request.Request
	grace   time.Duration
	token   bool   // pass the lock's token to COMMAND
	program string // the path at which COMMAND was found
	command []string
}

func newRunOptions(f *pflag.FlagSet) *runOptions {
	p := &runOptions{Request: request.New(f, command.ProcessLabel(os.Getpid()), "pid")}
	cli.DurationVar(f, &p.grace, "grace", "", -1, "how long COMMAND has to end after the lock is lost, at most half of "+
		"--ttl (default: a third of it, at most 5s)")
	cli.DurationVar(f, &p.MinHold, "min-hold", "", 0, "how long NAME stays held at least, also if COMMAND ends sooner (default: not longer than COMMAND)")
	f.IntVar(&p.SkipStatus, "skip-status", request.NoSkip, "the exit `status`, from 0 to 255, if another client holds NAME; nothing is printed then "+
		"(default: 75, with a message)")
	f.BoolVar(&p.token, "export-token", false, "pass the lock's token to COMMAND in REDLOCK_TOKEN, which can release the lock")
	return p
}

// read reads the words. If ok is false the call ends with the status exit.
func (o *runOptions) read(c *cli.Invocation) (exit int, ok bool) {
	switch {
	case len(c.Args) == 0:
		return c.Misused("a NAME is needed, followed by -- and a COMMAND"), false
	case !c.HasDashes || len(c.Args) > 1:
		return c.Misused("want one NAME, then --, then the COMMAND: got %q", strings.Join(c.Args, " ")), false
	case len(c.AfterDashes) == 0:
		return c.Misused("no COMMAND after the --"), false
	}
	o.Name, o.command = c.Args[0], c.AfterDashes
	if err := o.checkBounds(c); err != nil {
		return c.Misused("%v", err), false
	}
	if exit := o.find(c); exit != cli.ExitOK {
		return exit, false // before the lock is acquired: a wait for a missing COMMAND is useless
	}
	return cli.ExitOK, true
}

const (
	maxGrace = 5 * time.Second
	// maxSlack bounds the time reserved before the end of the validity for the delivery of a
	// signal and for the scheduler.
	maxSlack = 100 * time.Millisecond
)

// checkBounds checks the limits that the library does not know.
func (o *runOptions) checkBounds(c *cli.Invocation) error {
	if err := o.Read(c); err != nil {
		return err
	}
	if o.grace == -1 {
		o.grace = min(maxGrace, o.TTL/3)
	}
	if o.grace < 0 || o.grace > o.TTL/2 {
		return errors.New("--grace must be from 0 to half of --ttl: " + (o.TTL / 2).String())
	}
	if o.MinHold < 0 {
		return errors.New("--min-hold can't be negative")
	}
	if c.Command.Flags().Changed("skip-status") && (o.SkipStatus < 0 || o.SkipStatus > 255) {
		return errors.New("--skip-status must be from 0 to 255")
	}
	return nil
}

// slack returns how long before the end of the validity the group is killed.
func (o *runOptions) slack() time.Duration { return min(maxSlack, o.TTL/20) }

// margin returns how long before the end of the validity the command gets SIGTERM. It is at most
// half of the TTL, which leaves time to extend the lock, and at least what WithStopMargin demands.
func (o *runOptions) margin() time.Duration {
	return max(time.Millisecond, min(o.grace+o.slack(), o.TTL/2))
}

// options returns the options of the lock.
func (o *runOptions) options() []redlock.LockOption {
	opts := []redlock.LockOption{
		redlock.WithAutoExtend(),
		redlock.WithMaxHold(redlock.NoMaxHold), // the command's run time bounds the hold
		redlock.WithStopMargin(o.margin()),
	}
	if o.MinHold > 0 {
		opts = append(opts, redlock.WithMinHold(o.MinHold))
	}
	return opts
}

// environment returns the environment of COMMAND: redlock's own without its secrets, and the
// variables that describe the lock. Without a fence REDLOCK_FENCE is empty, so a script that
// needs a fence fails.
func (o *runOptions) environment(inherited []string, lock *redlock.Lock) []string {
	fence := ""
	if n := lock.Fence(); n != 0 {
		fence = strconv.FormatInt(n, 10)
	}
	env := slices.DeleteFunc(slices.Clone(inherited), isWithheld)
	env = append(env, "REDLOCK_NAME="+o.Name, "REDLOCK_ID="+lock.ID(), "REDLOCK_FENCE="+fence)
	if o.token {
		env = append(env, "REDLOCK_TOKEN="+lock.Token())
	}
	return env
}

// isWithheld reports whether COMMAND does not inherit a variable: it contains passwords or
// leads to them, or it describes the lock of a redlock run around this one.
func isWithheld(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	switch name {
	case "REDLOCK_NODES", "REDLOCK_NODES_FILE", "REDLOCK_TOKEN", "REDLOCK_NAME", "REDLOCK_ID", "REDLOCK_FENCE":
		return true
	}
	return false
}

// find looks for COMMAND as a shell does. Unlike exec.LookPath it accepts a program in the
// current directory if PATH contains ".".
func (o *runOptions) find(c *cli.Invocation) int {
	path, err := exec.LookPath(o.command[0])
	switch {
	case err == nil || errors.Is(err, exec.ErrDot): // a shell accepts "." in PATH
		o.program = path
		return cli.ExitOK
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		c.Fail(err, "%s: not found", o.command[0])
		return cli.ExitNotFound
	default:
		c.Fail(err, "%s: can't be executed: %v", o.command[0], errors.Unwrap(err))
		return cli.ExitNotExecutable
	}
}
