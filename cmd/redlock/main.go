// Command redlock holds locks over several Redis nodes for commands and shell scripts, shows who
// holds them, looks after the nodes, measures them, and demonstrates the library.
// `redlock help` says how, and so does docs/command.md.
//
// The files:
//
//	main.go, commands.go, flagset.go, help.go      from words to a subcommand; its help
//	failure.go                                     why an invocation fails, as text and as JSON
//	did_you_mean.go                                the word that an unknown one resembles
//	invocation.go, output.go, exit.go              streams and exit statuses
//	printer.go, table.go                           output for people
//	nodes.go, tls.go, locker.go                    the nodes, and how to reach them
//	lock_request.go, lock_request_acquire.go       the lock that is requested, and its acquisition
//	status_line.go, wait_status.go                 the line on a terminal during a wait
//	run.go, run_entry.go, run_options.go           `run`: its flags and its course
//	supervisor.go, deadline.go, kill_remaining.go  watching the command, and ending it
//	child.go, start_barrier.go, group.go           the command's processes
//	reaper.go, reaper_process.go                   killing them if this process cannot
//	signals.go, terminal.go, job_control.go        signals and job control
//	adopt_linux.go, adopt_other.go, unsupported.go what depends on the system
//	acquire.go, claim.go                           `acquire`, `extend` and `release`
//	status.go, status_text.go, watch.go            `status`
//	list.go, list_text.go, break.go                `list` and `break`, with node_group.go: queries without a Locker
//	doctor.go, doctor_text.go                      `doctor`
//	guard.go, begin.go                             --guard; `doctor --begin-guard`
//	bench.go, bench_sample.go, bench_text.go       `bench`, with histogram.go
//	demo.go, demo_*.go, cuttable_dialer.go         `demo`
//	completion.go, completion_*.go                 `completion`, with version.go
package main

import (
	"context"
	"os"
)

//go:generate go test -run ^TestTheManualIsUpToDate$ . -update

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program except os.Exit. The streams are files, because a child process inherits
// them directly. A goroutine that copies would have to outlive this process if it is killed.
func run(ctx context.Context, args, env []string, stdin, stdout, stderr *os.File) int {
	c := &invocation{env: env, stdin: stdin, stdout: &output{file: stdout}, stderr: stderr}
	return c.reportOutput(c.dispatch(ctx, args))
}

// dispatch runs the subcommand that the first word names.
func (inv *invocation) dispatch(ctx context.Context, args []string) int {
	if len(args) == 0 {
		overview(inv.stderr)
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		if len(rest) == 0 {
			overview(inv.stdout)
			return exitOK
		}
		name, rest = rest[0], []string{"-h"}
	case "-version", "--version":
		name = "version"
	case startBarrierMode:
		return waitStartBarrier(inv, rest)
	case reaperMode:
		return runReaper(inv)
	case namesMode:
		return completeNames(ctx, inv, rest)
	}
	for _, cmd := range commands() {
		if cmd.name == name {
			return inv.parseAndRun(ctx, cmd, rest)
		}
	}
	inv.asJSON = wantsJSON(args)
	inv.fail(nil, "there is no command %q%s", name, didYouMean(name, "", names(commands())))
	inv.say("`redlock help` lists what there is")
	return inv.finish(exitUsage)
}
