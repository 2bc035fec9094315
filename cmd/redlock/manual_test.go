package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/command.md anew: go generate ./cmd/redlock")

// manual is docs/command.md, made of the table.
func manual() string {
	var b strings.Builder
	b.WriteString(`# The command

<!-- Made of the table in cmd/redlock by "go generate ./cmd/redlock": change it there. -->

` + "`redlock`" + ` holds locks over several independent Redis nodes, by quorum. ` + "`go build -o redlock ./cmd/redlock`" + ` builds it.
[operations.md](operations.md#from-a-shell) shows it at work.

| subcommand | what it is for |
|---|---|
`)
	for _, cmd := range commands() {
		fmt.Fprintf(&b, "| [%s](#redlock-%s) | %s |\n", cmd.name, cmd.name, cell(cmd.summary))
	}
	b.WriteString("\n" + markdown(overviewText))
	for _, cmd := range commands() {
		fmt.Fprintf(&b, "\n## redlock %s\n\n%s.\n\n    %s\n\n", cmd.name, capital(cmd.summary), cmd.usage())
		if options := newFlagSet(cmd).all(); len(options) > 0 {
			b.WriteString("| flag | |\n|---|---|\n")
			for _, o := range options {
				fmt.Fprintf(&b, "| `%s` | %s |\n", o.label(), cell(o.usage))
			}
			b.WriteString("\n")
		}
		b.WriteString(markdown(cmd.about) + "\n| exit status | |\n|---|---|\n")
		for _, e := range cmd.exitStatuses {
			fmt.Fprintf(&b, "| %s | %s |\n", e.label(), cell(e.when))
		}
		b.WriteString("\nExample:\n\n    " + strings.Join(cmd.examples, "\n    ") + "\n")
	}
	return b.String()
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

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func TestTheManualIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "command.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(manual()), 0o644))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	if string(written) != manual() {
		t.Fatal("docs/command.md is not what the table says: go generate ./cmd/redlock")
	}
}
