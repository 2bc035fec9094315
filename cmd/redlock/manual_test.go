package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

var (
	update = flag.Bool("update", false, "write docs/command.md again: go generate ./cmd/redlock")
	pages  = flag.String("man", "", "write man pages into this folder: make man")
)

// documented is the whole command as the pages show it.
func documented() *cobra.Command {
	root := newRoot(&cli.Invocation{}, false)
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long, cmd.DisableAutoGenTag = markdown(cmd.Long), true
	}
	return root
}

// manual is docs/command.md.
func manual(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# The command

<!-- Made of the help in cmd/redlock by "go generate ./cmd/redlock": change it there. -->

[operations.md](operations.md#from-a-shell) shows it at work. ` + "`make build` builds it, `make man`" + ` writes its man pages.

`)
	anchor := func(page string) string {
		return "#" + strings.ReplaceAll(strings.TrimSuffix(page, ".md"), "_", "-")
	}
	root := documented()
	require.NoError(t, doc.GenMarkdownCustom(root, &b, anchor))
	for _, cmd := range root.Commands() {
		if cmd.IsAdditionalHelpTopicCommand() || cmd.Name() == "help" {
			continue
		}
		var section bytes.Buffer
		require.NoError(t, doc.GenMarkdownCustom(cmd, &section, anchor))
		text, _, _ := strings.Cut(section.String(), "### SEE ALSO") // it leads to the list above
		b.WriteString("\n" + text)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// markdown shows as they stand the lines that begin with spaces.
func markdown(text string) string {
	var b strings.Builder
	inBlock := false
	for line := range strings.Lines(text) {
		block := strings.HasPrefix(line, " ")
		if block && !inBlock || inBlock && !block && line != "\n" {
			b.WriteString("\n")
		}
		if block {
			line = "  " + line
		}
		inBlock = block
		b.WriteString(line)
	}
	return b.String()
}

func TestTheManualIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "command.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(manual(t)), 0o644))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	if string(written) != manual(t) {
		t.Fatal("docs/command.md is not what help says: go generate ./cmd/redlock")
	}
}

func TestEverySubcommandHasAManPage(t *testing.T) {
	folder := *pages
	if folder == "" {
		folder = t.TempDir()
	}
	header := &doc.GenManHeader{Section: "1", Source: "go-redlock", Manual: "go-redlock"}
	require.NoError(t, doc.GenManTree(forMan(), header, folder))
	for _, name := range append(subcommands(), "redlock") {
		file := filepath.Join(folder, name+".1")
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		page = manOption.ReplaceAll(page, []byte(".TP\n$1\n"))
		require.NoError(t, os.WriteFile(file, page, 0o644))
		require.Contains(t, string(page), `.TH "`+strings.ToUpper(name)+`" "1"`)
		require.NotRegexp(t, `(?m)=\]?$`, string(page), "a flag has no name of its value")
		require.Contains(t, string(page), ".TP\n\\fB-h\\fP, \\fB--help\\fP\n", "cobra has the text in the line of the flag")
		require.Equal(t, name != "redlock", strings.Contains(string(page), "\n.SH EXIT STATUS\n"), name)
	}
}

// manOption is a flag as cobra prints it: [=] without a value, and the text behind a tab.
var manOption = regexp.MustCompile(`(?m)(?:^\n\.PP\n)?^(\\fB-.*?)(?:\[=\])?\n\t`)

func subcommands() (pages []string) {
	for _, cmd := range commands() {
		pages = append(pages, "redlock-"+cmd.Name())
	}
	return pages
}

// forMan is the whole command as man pages show it: with a section for the exit statuses, and the names of the
// flags' values, where cobra has their defaults.
func forMan() *cobra.Command {
	root := documented()
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long = strings.Replace(cmd.Long, "\nExit status:\n", "\n# EXIT STATUS\n", 1)
		cmd.Flags().VisitAll(func(def *pflag.Flag) {
			if def.NoOptDefVal == "" {
				def.DefValue = def.Value.Type()
			}
		})
	}
	return root
}
