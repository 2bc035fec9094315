package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// call is one invocation of a subcommand: its words, environment and streams.
type call struct {
	command command
	args    []string
	env     []string
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
}

// say tells the person at standard error something, on a line of its own.
func (c *call) say(format string, args ...any) {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = plain(err)
		}
	}
	// A message that nobody can read any more changes nothing.
	_, _ = fmt.Fprintf(c.stderr, "redlock: "+format+"\n", args...)
}

// plain is an error's text without the library's name, which stands there already.
func plain(err error) string { return strings.ReplaceAll(err.Error(), "redlock: ", "") }

// misused says what is wrong with the words that were given.
func (c *call) misused(format string, args ...any) int {
	c.say(c.command.name+": "+format, args...)
	c.say("`redlock %s -h` shows how it is used", c.command.name)
	return exitUsage
}

// getenv is the last value of a variable, as a process that is given env sees it.
func (c *call) getenv(key string) string {
	for _, entry := range slices.Backward(c.env) {
		if name, value, ok := strings.Cut(entry, "="); ok && name == key {
			return value
		}
	}
	return ""
}
