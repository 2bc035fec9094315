package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// failure is why an invocation fails, for --json.
type failure struct {
	text string
	err  error // nil if there is no more than the text
}

// Fail reports why the invocation fails. The last report counts for --json. err is nil if the reason
// has no error. `run --json` prints no text, because the object goes to the same stream.
func (inv *Invocation) Fail(err error, format string, args ...any) {
	text := inv.message(format, args...)
	inv.failure = &failure{text, err}
	if inv.printsMessages() {
		inv.print(text)
	}
}

// printsMessages reports whether standard error is not for an object.
func (inv *Invocation) printsMessages() bool { return !inv.JSON || !inv.takesCommand() }

func (inv *Invocation) takesCommand() bool { return inv.Command != nil && inv.Command.TakesCommand }

// FailSilently records why the invocation fails, for --json only.
func (inv *Invocation) FailSilently(err error, text string) { inv.failure = &failure{text, err} }

// failureJSON is the JSON form of a failure.
type failureJSON struct {
	Error  string `json:"error"`
	Code   string `json:"code"`
	Owner  string `json:"owner,omitempty"`
	ID     string `json:"id,omitempty"`
	LeftMS *int64 `json:"left_ms,omitempty"`
	// Of a lock that was lost. OverlapMS is the longest time in which another client may have held it.
	Reason    redlock.LossReason `json:"reason,omitempty"`
	OverlapMS *int64             `json:"overlap_ms,omitempty"`
}

// Finish prints the result, and with --json the failure if the status is one. COMMAND's own status is
// no failure of redlock.
func (inv *Invocation) Finish(status int) int {
	failed := inv.JSON && status != ExitOK && (inv.failure != nil || !inv.takesCommand())
	switch {
	case inv.Result != nil && failed:
		_ = inv.PrintJSON(Joined(inv.Result, inv.failureJSON(status)))
	case inv.Result != nil:
		_ = inv.PrintJSON(inv.Result)
	case failed && inv.takesCommand():
		_, _ = fmt.Fprintf(inv.Stderr, "%s\n", Encoded(inv.failureJSON(status)))
	case failed:
		_, _ = fmt.Fprintf(inv.Stdout, "%s\n", Encoded(inv.failureJSON(status)))
	}
	return status
}

// Joined returns one object with the fields of two. Neither is empty.
func Joined(first, second any) json.RawMessage {
	return slices.Concat(bytes.TrimSuffix(Encoded(first), []byte("}")), []byte(","), Encoded(second)[1:])
}

// Encoded returns an object as JSON on one line. Its values are those of this program, which can be
// encoded.
func Encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}

func (inv *Invocation) failureJSON(status int) failureJSON {
	f := inv.failure
	if f == nil {
		f = &failure{text: inv.Command.meaning(status)}
	}
	j := failureJSON{Error: f.text, Code: codeOf(status, f.err)}
	var held *redlock.HeldError
	var qe *redlock.QuorumError
	var lost *redlock.LostError
	if errors.As(f.err, &lost) {
		held = lost.Holder
		j.Reason, j.OverlapMS = lost.Reason, Milliseconds(lost.Overlap+time.Millisecond-1) // a bound is rounded up
	}
	switch {
	case held != nil, errors.As(f.err, &held):
		j.Owner, j.ID, j.LeftMS = held.Owner, held.ID, Milliseconds(held.Remaining)
	case errors.As(f.err, &qe) && qe.QuarantinedFor() > 0:
		j.LeftMS = Milliseconds(qe.QuarantinedFor())
	}
	return j
}

// meaning returns what the table says about an exit status.
func (cmd *Subcommand) meaning(status int) string {
	if status > ExitSignal {
		status = ExitSignal
	}
	for _, e := range cmd.ExitStatuses {
		if e.Status == status {
			return e.when
		}
	}
	return fmt.Sprintf("exit status %d", status)
}

// codeOf returns the kind of a failure for programs. Overview lists the codes.
func codeOf(status int, err error) string {
	var sig SignalError
	var qe *redlock.QuorumError
	switch {
	case errors.As(err, &sig):
		return "signal"
	case status == ExitUsage:
		return "usage"
	case IsGuardMismatch(err), isNotBegun(err):
		return "guard"
	case IsForeign(err):
		return "foreign_key"
	case errors.As(err, &qe) && qe.Split:
		return "split"
	case errors.As(err, &qe):
		err = qe.Reason // not what single nodes answered
	}
	for _, c := range errorCodes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	var coded *codedError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case status > ExitSignal:
		return "signal"
	}
	if code, ok := statusCodes[status]; ok {
		return code
	}
	return "failed"
}

// errorCodes are the codes of errors, the first match first.
var errorCodes = []struct {
	err  error
	code string
}{
	{redlock.ErrQuarantined, "quarantined"},
	{redlock.ErrHeld, "held"},
	{redlock.ErrTooLate, "too_late"},
	{redlock.ErrLost, "lost"},
	{redlock.ErrNoQuorum, "no_quorum"},
	{doctor.ErrNotAdmitted, "not_admitted"},
}

// statusCodes are the codes of exit statuses without an error that has one.
var statusCodes = map[int]string{
	ExitUnavailable: "no_quorum", ExitSystem: "system", ExitLost: "lost", ExitHeld: "held", ExitConfig: "guard",
	ExitNotExecutable: "not_executable", ExitNotFound: "not_found",
}

// codedError is an error of a subcommand that has a code of its own.
type codedError struct{ code, text string }

func (e *codedError) Error() string { return e.text }

// CodedError returns an error that --json reports by this code.
func CodedError(code, text string) error { return &codedError{code, text} }
