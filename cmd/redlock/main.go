// Command redlock holds locks over several Redis nodes for commands and shell scripts, shows who
// holds them, looks after the nodes, measures them, and demonstrates the library.
// `redlock help` says how, and so does docs/command.md.
//
// The files:
//
//	main.go, root.go, subcommand.go                cobra: from words to a subcommand
//	overview.go, flags.go                          help, and flags that subcommands have in common
//	failure.go                                     why an invocation fails, as text and as JSON
//	invocation.go, output.go, exit.go              streams and exit statuses
//	printer.go, table.go, holder.go                output for people
//	nodes.go, tls.go, locker.go                    the nodes, and how to reach them
//	lock_request.go, lock_request_acquire.go       the lock that is requested, and its acquisition
//	status_line.go, wait_status.go                 the line on a terminal during a wait
//	run.go, run_entry.go, run_options.go           `run`: its flags and its course
//	supervisor.go, deadline.go, kill_remaining.go  watching the command, and ending it
//	run_modes.go, internal/process                 the command's processes, and their end if this process cannot end them
//	signals.go, terminal.go, job_control.go        signals and job control
//	unsupported.go                                 `run` where it is not available
//	acquire.go, claim.go                           `acquire`, `extend` and `release`
//	status.go, status_text.go, watch.go            `status`
//	list.go, list_text.go, break.go                `list` and `break`, with node_group.go: queries without a Locker
//	doctor.go, doctor_text.go                      `doctor`
//	guard.go, begin.go                             --guard; `doctor --begin-guard`
//	bench.go, bench_sample.go, bench_text.go       `bench`, with histogram.go
//	demo.go, demo_*.go, cuttable_dialer.go         `demo`
//	completion.go, version.go                      `completion`, `version`
package main

import (
	"cmp"
	"context"
	"os"
	"slices"
)

//go:generate go test -run ^TestTheManualIsUpToDate$ . -update

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program except os.Exit. The streams are files, because a child process inherits
// them directly. A goroutine that copies would have to outlive this process if it is killed.
func run(ctx context.Context, args, env []string, stdin, stdout, stderr *os.File) int {
	c := &invocation{env: env, stdin: stdin, stdout: &output{file: stdout}, stderr: stderr}
	return c.reportOutput(dispatch(ctx, c, args))
}

// dispatch runs the subcommand that the words name.
func dispatch(ctx context.Context, inv *invocation, args []string) int {
	if exit, ok := runMode(inv, args); ok {
		return exit
	}
	inv.asJSON = wantsJSON(args)
	inv.hasDashes = slices.Contains(args[:max(0, len(args)-1)], "--") // the last word may be typed just now
	root := newRoot(inv)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case inv.stdout.err != nil: // reportOutput reports it
	case err != nil && inv.command != nil:
		inv.status = inv.misused("%s", err.Error())
	case err != nil:
		inv.fail(nil, "%s", cmp.Or(unknownCommand(root, args), err).Error())
		inv.say("`redlock help` lists what there is")
		inv.status = exitUsage
	}
	return inv.finish(inv.status)
}

// wantsJSON reports whether --json seems to be among words that may be wrong.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}
