package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// invocation is one invocation of a subcommand: its words, environment and streams.
type invocation struct {
	command     *subcommand // nil: none, or one that does not exist
	args        []string    // beside the flags
	afterDashes []string    // after the first --
	hasDashes   bool        // there was a --
	env         []string
	stdin       *os.File
	stdout      *output
	stderr      *os.File

	asJSON  bool     // --json was given
	result  any      // what finish prints; nil if it was printed, or if there is none
	failure *failure // as reported last
	status  int      // the exit status
}

// all returns all words, before and after --. It is for subcommands to which -- only means that no
// flags follow.
func (inv *invocation) all() []string { return slices.Concat(inv.args, inv.afterDashes) }

// name returns the lock's name, which must be the only word.
func (inv *invocation) name() (string, error) {
	words := inv.all()
	if len(words) != 1 {
		return "", fmt.Errorf("one NAME is needed, %d given", len(words))
	}
	return words[0], notClaim(words[0])
}

// notClaim rejects a claim, or a URL with a password, in place of a name: it would be printed, and
// locked as a name.
func notClaim(name string) error {
	if strings.Contains(name, "://") && strings.Contains(name, "@") {
		return errors.New("that is a URL and not a NAME")
	}
	var claim redlock.Claim
	if claim.UnmarshalText([]byte(name)) == nil {
		return fmt.Errorf("that is a claim and not a NAME: it is a claim on %s", oneline.Quoted(claim.Names))
	}
	return nil
}

// say prints a message on standard error, on a line of its own.
func (inv *invocation) say(format string, args ...any) { inv.print(inv.message(format, args...)) }

// message returns a text without secrets, fit for a terminal.
func (inv *invocation) message(format string, args ...any) string {
	for i, a := range args {
		switch a := a.(type) {
		case error:
			args[i] = withoutPrefix(a)
		case string: // a name, a file or a word of the user
			args[i] = oneline.Printable(a)
		}
	}
	return masked(fmt.Sprintf(format, args...))
}

// print prints a message. One that cannot be written is dropped: the status does not depend on it.
func (inv *invocation) print(message string) {
	_, _ = fmt.Fprintf(inv.stderr, "redlock: %s\n", message)
}

// withoutPrefix returns an error's text without the library's prefix, because the line begins with
// the same word.
func withoutPrefix(err error) string { return strings.ReplaceAll(err.Error(), "redlock: ", "") }

var (
	claims    = regexp.MustCompile(`redlock1\.[A-Za-z0-9_-]+`)
	passwords = regexp.MustCompile(`(://)[^\n]*@`)
	// The library's own errors about URLs contain no password.
	hideForms = strings.NewReplacer("redis://[[user]:password@]host", "\x01", "redis://user:@host", "\x02", "/ ? # @", "\x03")
	showForms = strings.NewReplacer("\x01", "redis://[[user]:password@]host", "\x02", "redis://user:@host", "\x03", "/ ? # @")
)

// masked hides claims and passwords in URLs, which a message would quote if one was given in place
// of something else. With a claim anyone can release its lock.
func masked(text string) string {
	text = claims.ReplaceAllString(hideForms.Replace(text), "redlock1.…")
	return showForms.Replace(passwords.ReplaceAllString(text, "$1…@"))
}

// misused reports a mistake in the words, and returns the exit status for it.
func (inv *invocation) misused(format string, args ...any) int {
	inv.fail(nil, inv.command.Name()+": "+format, args...)
	if inv.printsMessages() {
		inv.say("`redlock %s -h` shows how it is used", inv.command.Name())
	}
	return exitUsage
}

// object prints a value as JSON on one line.
func (inv *invocation) object(v any) error {
	e := json.NewEncoder(inv.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// getenv returns the last value of a variable, as a process that is given this environment sees it.
func (inv *invocation) getenv(key string) string {
	for _, entry := range slices.Backward(inv.env) {
		if name, value, ok := strings.Cut(entry, "="); ok && name == key {
			return value
		}
	}
	return ""
}

// printer returns a printer to standard output.
func (inv *invocation) printer() *printer {
	return &printer{w: inv.stdout, colors: inv.redraws() && strings.TrimSpace(inv.getenv("NO_COLOR")) == ""}
}

// redraws reports whether standard output is a terminal that can move its cursor.
func (inv *invocation) redraws() bool {
	return isTerminal(inv.stdout.file) && inv.getenv("TERM") != "dumb"
}
