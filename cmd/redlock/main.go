// Command redlock holds locks over several Redis nodes for commands and shell scripts, shows who
// holds them, looks after the nodes, measures them, and demonstrates the library.
// `redlock help` says how, and so does docs/command.md.
//
// How it is laid out:
//
//	main.go, table.go, form.go, help.go  from words to a subcommand; all that is told of each
//	call.go, exit.go, page.go, grid.go   its streams and statuses; what a person reads
//	nodes.go, tls.go, locker.go          the nodes, and how to reach them
//	wish.go, take.go                     the lock that is asked for; taking it
//	liveline.go, waitline.go             what a person sees while it waits
//	run.go, plan.go                      `run`: what is asked for
//	supervise.go, leash.go, sweep.go     watching over the command, until when, and what it leaves
//	child.go, gate.go, group.go          the command's processes
//	keeper.go, keep.go                   who kills them when this process can't
//	signals.go, terminal.go, stop.go     signals and job control
//	acquire.go, claim.go                 `acquire`, `extend` and `release`
//	status.go, status_text.go, watch.go  `status`
//	doctor.go, doctor_text.go            `doctor`
//	guard.go, begin.go                   --guard: whether it has begun; `doctor --begin-guard`
//	bench*.go, histogram.go              `bench`
//	demo*.go, stage.go, line.go          `demo`
//	completion*.go, version.go           `completion` and `version`
package main

import (
	"context"
	"os"
)

//go:generate go test -run ^TestTheManualIsUpToDate$ . -update

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for os.Exit. The streams are files because a child
// process inherits them as they are: a copying goroutine in between would have to
// outlive this process when it is killed.
func run(ctx context.Context, args, env []string, stdin, stdout, stderr *os.File) int {
	c := &invocation{env: env, stdin: stdin, stdout: stdout, stderr: stderr}
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
	case "-version", "--version":
		name = "version"
	case startBarrierMode:
		return waitStartBarrier(c, rest)
	case reaperMode:
		return runReaper(c)
	}
	for _, cmd := range commands() {
		if cmd.name == name {
			return c.parseAndRun(ctx, cmd, rest)
		}
	}
	c.say("there is no command %q; `redlock help` lists what there is", name)
	return exitUsage
}
