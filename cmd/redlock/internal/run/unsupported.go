//go:build !unix || aix || solaris

package run

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// runFlags: run keeps a command within the time of a lock by process groups, signals, and a pipe that
// closes when a process dies. On systems without these it is not offered: a lock that its command may
// outlive does not exclude anything.
func runFlags(*pflag.FlagSet) cli.RunFunc {
	return func(_ context.Context, inv *cli.Invocation) int {
		return inv.Misused("it is not available on this system, because it needs Unix process groups; `redlock acquire` and the library are")
	}
}

// Mode reports that this process is the command itself.
func Mode(*cli.Invocation, []string) (exit int, ok bool) { return 0, false }
