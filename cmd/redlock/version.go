package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

func versionEntry() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "version [flags]",
			Short: "print the version",
			Long: `It prints the version of the module, the revision of its source if known, and the version
of Go. redlock --version does the same.

With --json it prints one object:
  version   of the module; "(devel)" if it was built without version control
  revision  of the source; "" if unknown
  time      of that revision
  modified  whether the source differed from that revision
  go        version of Go
  platform  operating system and architecture
`,
			Example: "  redlock version",
		},
		Define:       versionFlags,
		ExitStatuses: []cli.ExitStatus{cli.EndsWell, cli.EndsMisused, cli.EndsUnwritten},
	}
}

func versionFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.JSONFlag(f)
	return func(_ context.Context, c *cli.Invocation) int {
		if len(c.Words()) > 0 {
			return c.Misused("takes no arguments")
		}
		printVersion(c)
		return cli.ExitOK
	}
}

func printVersion(c *cli.Invocation) {
	v := versionOf(debug.ReadBuildInfo())
	if c.JSON {
		_ = c.PrintJSON(v)
		return
	}
	_, _ = fmt.Fprintln(c.Stdout, v)
}

// version is what this program was built from.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Time     string `json:"time"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionOf(info *debug.BuildInfo, known bool) version {
	v := version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !known {
		return v
	}
	v.Version = info.Main.Version
	if v.Version == "" {
		v.Version = "(devel)" // a test binary has no module version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String describes the version on one line.
func (v version) String() string {
	parts := []string{"redlock " + v.Version}
	if v.Revision != "" {
		at := "revision " + v.Revision[:min(len(v.Revision), 12)]
		if v.Time != "" {
			at += " of " + v.Time
		}
		if v.Modified {
			at += ", modified"
		}
		parts = append(parts, "("+at+")")
	}
	return strings.Join(append(parts, v.Go, v.Platform), " ")
}
