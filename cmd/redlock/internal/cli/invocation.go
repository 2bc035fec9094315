package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// Invocation is one invocation of a subcommand: its words, environment and streams.
type Invocation struct {
	Command     *Subcommand // nil: none, or one that does not exist
	Args        []string    // beside the flags
	AfterDashes []string    // after the first --
	HasDashes   bool        // there was a --
	Env         []string
	Stdin       *os.File
	Stdout      *Output
	Stderr      *os.File

	JSON    bool     // --json was given
	Result  any      // what Finish prints; nil if it was printed, or if there is none
	failure *failure // as reported last
	Status  int      // the exit status
}

// Words returns all words, before and after --. It is for subcommands to which -- only means that no
// flags follow.
func (inv *Invocation) Words() []string { return slices.Concat(inv.Args, inv.AfterDashes) }

// Name returns the lock's name, which must be the only word.
func (inv *Invocation) Name() (string, error) {
	words := inv.Words()
	if len(words) != 1 {
		return "", fmt.Errorf("one NAME is needed, %d given", len(words))
	}
	return words[0], CheckName(words[0])
}

// CheckName rejects a claim, or a URL with a password, in place of a name: it would be printed, and
// locked as a name.
func CheckName(name string) error {
	if strings.Contains(name, "://") && strings.Contains(name, "@") {
		return errors.New("that is a URL and not a NAME")
	}
	var claim redlock.Claim
	if claim.UnmarshalText([]byte(name)) == nil {
		return fmt.Errorf("that is a claim and not a NAME: it is a claim on %s", oneline.Quoted(claim.Names))
	}
	return nil
}

// Say prints a message on standard error, on a line of its own.
func (inv *Invocation) Say(format string, args ...any) { inv.print(inv.message(format, args...)) }

// message returns a text without secrets, fit for a terminal.
func (inv *Invocation) message(format string, args ...any) string {
	for i, a := range args {
		switch a := a.(type) {
		case error:
			args[i] = withFlags(WithoutPrefix(a))
		case string: // a name, a file or a word of the user
			args[i] = oneline.Printable(a)
		}
	}
	return Masked(fmt.Sprintf(format, args...))
}

// print prints a message. One that cannot be written is dropped: the status does not depend on it.
func (inv *Invocation) print(message string) {
	_, _ = fmt.Fprintf(inv.Stderr, "redlock: %s\n", message)
}

// WithoutPrefix returns an error's text without the library's prefix, because the line begins with
// the same word.
func WithoutPrefix(err error) string { return strings.ReplaceAll(err.Error(), "redlock: ", "") }

var (
	claims    = regexp.MustCompile(`redlock1\.[A-Za-z0-9_-]+`)
	passwords = regexp.MustCompile(`(://)[^\n\x04]*@`) // up to the last @: a password may have one
	// Of an error with one answer for each node, or with one mistake for each URL.
	nextNode = regexp.MustCompile(`; (\S+: (granted|refused|failed|unknown)|URL \d+ of \d+: )`)
	// The library's own errors about URLs contain no password.
	hideForms = strings.NewReplacer("redis://[[user]:password@]host", "\x01", "redis://user:@host", "\x02", "/ ? # @", "\x03", "redis://:password@host", "\x05", "\x04", "")
	showForms = strings.NewReplacer("\x01", "redis://[[user]:password@]host", "\x02", "redis://user:@host", "\x03", "/ ? # @", "\x05", "redis://:password@host", "\x04", "")
)

// Masked hides claims and passwords in URLs, which a message would quote if one was given in place
// of something else. With a claim anyone can release its lock.
func Masked(text string) string {
	text = claims.ReplaceAllString(hideForms.Replace(text), "redlock1.…")
	text = nextNode.ReplaceAllString(text, "\x04$0") // where no password goes on
	return showForms.Replace(passwords.ReplaceAllString(text, "$1…@"))
}

// Misused reports a mistake in the words, and returns the exit status for it.
func (inv *Invocation) Misused(format string, args ...any) int {
	inv.Fail(nil, inv.Command.Name()+": "+format, args...)
	if inv.printsMessages() {
		inv.Say("`redlock %s -h` shows how it is used", inv.Command.Name())
	}
	return ExitUsage
}

// PrintJSON prints a value as JSON.
func (inv *Invocation) PrintJSON(v any) error {
	e := json.NewEncoder(inv.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Getenv returns the last value of a variable, as a process that is given this environment sees it.
func (inv *Invocation) Getenv(key string) string {
	for _, entry := range slices.Backward(inv.Env) {
		if name, value, ok := strings.Cut(entry, "="); ok && name == key {
			return value
		}
	}
	return ""
}

// Printer returns a printer to standard output.
func (inv *Invocation) Printer() *terminal.Printer {
	return &terminal.Printer{W: inv.Stdout, Colors: inv.Redraws() && strings.TrimSpace(inv.Getenv("NO_COLOR")) == ""}
}

// Redraws reports whether standard output is a terminal that can move its cursor.
func (inv *Invocation) Redraws() bool {
	return terminal.IsTerminal(inv.Stdout.File) && inv.Getenv("TERM") != "dumb"
}
