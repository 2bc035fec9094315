package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// namesMode is the word by which a completion script asks for names. The words behind redlock follow, up to
// the cursor.
const namesMode = "__names"

// namesLimit bounds how many names are offered.
const namesLimit = 200

// completeNames prints the held names that begin with the last word. It prints nothing else, whatever
// happens: it would stand in the line that is typed.
func completeNames(ctx context.Context, inv *invocation, words []string) int {
	inv.stderr = nil // writing to it fails
	if len(words) < 2 {
		return exitOK
	}
	given, typed := words[1:len(words)-1], words[len(words)-1]
	for _, cmd := range commands() {
		if cmd.name == words[0] && cmd.heldName {
			inv.printNames(ctx, newFlagSet(cmd), given, typed)
		}
	}
	return exitOK
}

func (inv *invocation) printNames(ctx context.Context, f *flagSet, given []string, typed string) {
	if err := f.read(inv, given); err != nil || len(inv.all()) > 0 {
		return // the name is already there, or nobody knows where the nodes are
	}
	value := func(name string) *string {
		text := f.Lookup(name).Value.String()
		return &text
	}
	nodes, err := inv.nodes(nodeFlags{value("nodes"), value("nodes-file"), value("cacert"), value("cert"), value("key")})
	if err != nil {
		return
	}
	group, err := nodes.openGroup()
	if err != nil {
		return
	}
	defer group.close()
	prefix := inv.prefixText(f.Lookup("prefix").Value.(*prefixValue))
	ctx, cancel := context.WithTimeoutCause(ctx, namesTimeout, errTimeout)
	defer cancel()
	s := newSearch(group, prefix, typed, namesLimit, false)
	s.scan(ctx)
	for _, key := range slices.Sorted(maps.Keys(s.found)) {
		if name := strings.TrimPrefix(key, prefix); !strings.ContainsFunc(name, untyped) && !strings.HasPrefix(name, "-") {
			_, _ = fmt.Fprintln(inv.stdout, name)
		}
	}
}

// untyped reports whether a character does not stand in a word of a shell.
func untyped(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
}
