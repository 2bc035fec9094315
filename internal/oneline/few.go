package oneline

import (
	"fmt"
	"strings"
)

// maxShown is how many of several things a text names.
const maxShown = 5

// Few returns the first five of several things, and a text to follow them that says how many there are
// more. No text may grow with what users hold: a process may hold thousands of locks.
func Few[T any](all []T) (few []T, more string) {
	if n := len(all) - maxShown; n > 0 {
		return all[:maxShown], fmt.Sprintf(" and %d more", n)
	}
	return all, ""
}

// List joins a few of several texts, with a separator between them.
func List(texts []string, separator string) string {
	few, more := Few(texts)
	return strings.Join(few, separator) + more
}

// Quoted returns a few of several names as Go writes texts: one by itself, others between brackets.
func Quoted(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("%q", names[0])
	}
	few, more := Few(names)
	return fmt.Sprintf("%q%s", few, more)
}
