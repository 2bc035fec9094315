package resp

import (
	"errors"
	"regexp"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// ServerError is an error reply of a server, with its code separated, and with a text that may be shown.
type ServerError struct {
	Code string // the first word if that is in capital letters: "LOADING", "ERR" and so on; otherwise empty
	Text string // printable, at most 512 bytes, without the arguments of the command
}

// Error returns the server's text.
func (e *ServerError) Error() string { return e.Text }

// As leads errors.As to the type that users know, *pool.ServerError.
func (e *ServerError) As(target any) bool { return Public(e, target) }

// Public stores an error in the target of errors.As if that is of the type that users know, and reports whether
// it is. Package pool sets it, because it has the type.
var Public = func(*ServerError, any) bool { return false }

// Clean turns redigo's error of a server into a ServerError, and returns any other error as it is.
// The text has no arguments of an unknown command, which a server repeats, and nothing that has
// the form of a token. It is printable and bounded in length.
func Clean(err error) error {
	re, ok := said(err)
	if !ok {
		return err
	}
	text := tokenLike.ReplaceAllString(withoutArgs(re), "…")
	// Cloned, so that the error keeps no larger buffer alive.
	return &ServerError{Code: strings.Clone(code(text)), Text: strings.Clone(oneline.Printable(text))}
}

// said returns what a server said, if err is that as redigo reads it.
func said(err error) (re redis.Error, ok bool) {
	if err == nil { // every reply comes this way, and errors.As allocates
		return "", false
	}
	var e redis.Error
	ok = errors.As(err, &e)
	return e, ok
}

// tokenLike matches the random part of a token, also in lower case.
var tokenLike = regexp.MustCompile(`\b(?:[A-Z2-7]{26}|[a-z2-7]{26})\b`)

// withoutArgs returns an error's text without the arguments that a server repeats.
func withoutArgs(err redis.Error) string {
	text, _, _ := strings.Cut(string(err), ", with args beginning with")
	return text
}

// Withhold returns a server's error without its text if the text repeats the password. It removes
// the whole text, because a short password that is replaced in it would show by the gaps.
func Withhold(err error, password string) error {
	re, ok := said(err)
	if !ok || password == "" || !strings.Contains(withoutArgs(re), password) {
		return err
	}
	c := code(string(re))
	// A password may consist of capital letters only, and look like a code.
	if strings.Contains(c, password) {
		c = "ERR"
	}
	return redis.Error(strings.TrimSpace(c + " (the server's text is not shown: it repeats the password)"))
}

// Code returns the code of a server's error, before or after Clean. It is empty for any other error.
func Code(err error) string {
	var se *ServerError
	if errors.As(err, &se) {
		return se.Code
	}
	re, ok := said(err)
	if !ok {
		return ""
	}
	c := code(withoutArgs(re))
	if tokenLike.MatchString(c) {
		return ""
	}
	return c
}

// maxCode bounds the length of a code.
const maxCode = 32

// code returns a reply's first word if that is a code (capital letters), otherwise an empty
// string. Redis before 7 wraps errors of scripts in text of its own, with the code behind a dash.
func code(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if strings.Trim(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || len(first) > maxCode {
		return "" // not a code: it may be anything
	}
	if first != "ERR" {
		return first
	}
	// Only known codes are taken out of a text, because a script's arguments may contain words with
	// a dash.
	for word := range strings.FieldsSeq(text) {
		if c, ok := strings.CutPrefix(word, "-"); ok && executedNothing[c] || ok && c == "WRONGTYPE" {
			return c
		}
	}
	return first
}

// executedNothing are the codes by which a server says that it did not execute the command. Any
// other error may have come after a write (docs/dev/rules.md rule 4).
var executedNothing = map[string]bool{
	"ASK": true, "BUSY": true, "CLUSTERDOWN": true, "CROSSSLOT": true, "DENIED": true, "LOADING": true,
	"MASTERDOWN": true, "MISCONF": true, "MOVED": true, "NOAUTH": true, "NOPERM": true, "NOREPLICAS": true,
	"NOSCRIPT": true, "OOM": true, "READONLY": true, "TRYAGAIN": true, "UNMARKED": true, "WRONGPASS": true,
}

// IsServerError reports whether err is the reply of a server, after Clean, and not a failure of the connection.
func IsServerError(err error) bool {
	var se *ServerError
	return errors.As(err, &se)
}

// Unexecuted reports whether an error is a server's and has a code that proves that nothing was executed.
func Unexecuted(err error) bool { return executedNothing[Code(err)] }
