// Command redlock holds locks over several Redis nodes for commands and shell scripts, shows who
// holds them, looks after the nodes, measures them, and demonstrates the library.
// `redlock help` says how, and so does docs/command.md.
//
// The packages below internal, each of which imports only those above it:
//
//	process    the processes of `run`: the command, its group, the reaper
//	terminal   output for people
//	cli        what every subcommand needs
//	query      queries without a Locker
//	watch      --watch of `status` and `list`
//	stage      the nodes of the demo, and of --embedded
//	status     `status`
//	list       `list`
//	breaking   `break`
//	request    the lock that `run` and `acquire` request
//	claim      `acquire`, `extend` and `release`
//	doctor     `doctor`
//	bench      `bench`
//	demo       `demo`
//
// The files:
//
//	main.go, root.go                               from words to a subcommand; the help of all
//	completion.go, version.go                      `completion`, `version`
//	run.go, run_entry.go, run_options.go           `run`: its flags and its course
//	supervisor.go, deadline.go, kill_remaining.go  watching the command, and ending it
//	run_modes.go                                   the command's processes, and their end if this process cannot end them
//	job_control.go                                 job control
//	unsupported.go                                 `run` where it is not available
package main

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

//go:generate go test -run ^TestTheManualIsUpToDate$ . -update

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// execute is the whole program except os.Exit. The streams are files, because a child process inherits
// them directly. A goroutine that copies would have to outlive this process if it is killed.
func execute(ctx context.Context, args, env []string, stdin, stdout, stderr *os.File) int {
	c := &cli.Invocation{Env: env, Stdin: stdin, Stdout: &cli.Output{File: stdout}, Stderr: stderr}
	return c.ReportOutput(dispatch(ctx, c, args))
}

// dispatch runs the subcommand that the words name.
func dispatch(ctx context.Context, inv *cli.Invocation, args []string) int {
	if exit, ok := Mode(inv, args); ok {
		return exit
	}
	inv.JSON = wantsJSON(args)
	inv.HasDashes = slices.Contains(args[:max(0, len(args)-1)], "--") // the last word may be typed just now
	root := newRoot(inv)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case inv.Stdout.Err != nil: // reportOutput reports it
	case err != nil && inv.Command != nil:
		inv.Status = inv.Misused("%s", err.Error())
	case err != nil:
		inv.Fail(nil, "%s", cmp.Or(unknownCommand(root, args), err).Error())
		inv.Say("`redlock help` lists what there is")
		inv.Status = cli.ExitUsage
	}
	return inv.Finish(inv.Status)
}

// wantsJSON reports whether --json seems to be among words that may be wrong.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}
