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
//	run        `run`
//
// No subcommand imports another one. The files here:
//
//	main.go          from words to a subcommand
//	root.go          the whole command: cobra's root, and the list of subcommands
//	completion.go    `completion`, and the words that are completed
//	version.go       `version`
package main

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/run"
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
	if exit, ok := run.Mode(inv, args); ok {
		return exit
	}
	inv.JSON = wantsJSON(args)
	inv.HasDashes = slices.Contains(args[:max(0, len(args)-1)], "--") // the last word may be typed just now
	root := newRoot(inv, len(args) > 0)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case inv.Stdout.Err != nil: // ReportOutput reports it
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
