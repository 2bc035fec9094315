// Command redlock holds a lock over several Redis masters while a command runs,
// shows who holds one, looks after the masters, and demonstrates the library. `redlock help` says how.
//
// How it is laid out:
//
//	main.go, call.go, form.go, exit.go   from words to a subcommand and back to a status
//	locker.go, status.go, status_text.go `status`
//	doctor.go, doctor_text.go            `doctor`
//	run.go, plan.go, acquire.go          `run`: what is asked for, and taking the lock
//	waitline.go                          what a person sees while it waits
//	supervise.go, leash.go, sweep.go     watching over the command, until when, and what it leaves
//	child.go, gate.go, group.go          the command's processes
//	keeper.go, keep.go                   who kills them when this process can't
//	signals.go, terminal.go, stop.go     signals and job control
//	demo*.go, page.go, stage.go, line.go `demo`
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// command is a subcommand.
type command struct {
	name     string
	synopsis string // what stands behind the name
	summary  string // one line
	run      func(ctx context.Context, c *call) int
}

// commands lists them in the order in which they are shown.
func commands() []command {
	return []command{
		{"demo", demoSynopsis, "see a lock at work: votes, contenders, a master stopped, a takeover", demo},
		{"run", runSynopsis, "hold a lock while a command runs", runCommand},
		{"status", statusSynopsis, "say who holds a lock, on which masters, for how long", status},
		{"doctor", doctorSynopsis, "say whether masters are fit to hold locks", doctor},
	}
}

// run is the whole program but for os.Exit. The streams are files because a child
// process inherits them as they are: a copying goroutine in between would have to
// outlive this process when it is killed.
func run(ctx context.Context, args, env []string, stdin, stdout, stderr *os.File) int {
	c := &call{env: env, stdin: stdin, stdout: stdout, stderr: stderr}
	if len(args) == 0 {
		overview(stderr)
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		if len(rest) == 0 {
			overview(stdout)
			return exitOK
		}
		name, rest = rest[0], []string{"-h"}
	case gateMode:
		return passGate(c, rest)
	case keeperMode:
		return keep(c)
	}
	for _, cmd := range commands() {
		if cmd.name == name {
			c.command, c.args = cmd, rest
			return cmd.run(ctx, c)
		}
	}
	c.say("there is no command %q; `redlock help` lists what there is", name)
	return exitUsage
}
