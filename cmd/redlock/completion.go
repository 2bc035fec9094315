package main

import (
	"context"
	"fmt"
	"strings"
)

// shells are the shells for which there is a completion script.
var shells = []string{"bash", "zsh", "fish"}

func completionEntry() subcommand {
	return subcommand{
		name:    "completion",
		args:    strings.Join(shells, "|"),
		choices: shells,
		summary: "print a script with which a shell completes redlock's words",
		flags:   completionFlags,
		about: `It completes subcommands, flags, the COMMAND of redlock run, and the NAMEs of redlock
status and break. For a NAME it searches the nodes as redlock list does, for half a second
at most, and offers up to 200 names that are held on a node. It offers none if no node can
be reached. A script has to be made again for a new version of redlock.

The script goes where the shell looks for it:
  bash  source <(redlock completion bash)     in ~/.bashrc
  zsh   source <(redlock completion zsh)      in ~/.zshrc, below compinit
  fish  redlock completion fish | source      in ~/.config/fish/config.fish
`,
		exitStatuses: []exitStatus{endsWell, endsMisused, endsUnwritten},
		examples:     []string{"redlock completion bash >/etc/bash_completion.d/redlock"},
		noJSON:       "what it prints is a script",
	}
}

func completionFlags(*flagSet) runFunc {
	return func(_ context.Context, c *invocation) int {
		words := c.all()
		if len(words) != 1 {
			return c.misused("one shell is needed, %d given: %s", len(words), strings.Join(shells, ", "))
		}
		var script string
		switch words[0] {
		case "bash":
			script = bashCompletion(commands())
		case "zsh":
			script = zshCompletion(commands())
		case "fish":
			script = fishCompletion(commands())
		default:
			return c.misused("no completion for %q: the shells are %s", words[0], strings.Join(shells, ", "))
		}
		_, _ = fmt.Fprint(c.stdout, script)
		return exitOK
	}
}

// names are those of all subcommands, and help.
func names(all []subcommand) []string {
	list := []string{"help"}
	for _, cmd := range all {
		list = append(list, cmd.name)
	}
	return list
}

// firstLine is what stands beside a flag where there is room for one line.
func firstLine(usage string) string {
	usage = strings.Join(strings.Fields(usage), " ")
	for _, end := range []string{" (", ": ", "; "} {
		usage, _, _ = strings.Cut(usage, end)
	}
	return usage
}

// takesCommand reports whether a command of the shell's goes behind --.
func (cmd subcommand) takesCommand() bool { return strings.Contains(cmd.args, "COMMAND") }

// takers are the names of those subcommands.
func takers(all []subcommand) (list []string) {
	for _, cmd := range all {
		if cmd.takesCommand() {
			list = append(list, cmd.name)
		}
	}
	return list
}

// helpSummary is what help does, which is no command of the table.
const helpSummary = "say how a subcommand is used"
