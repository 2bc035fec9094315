package examine

import (
	"fmt"

	"github.com/quorumlock/go-redlock/internal/command"
)

// Finding is a problem or a remark about one node or about all of them.
type Finding struct {
	Grade Grade
	command.Fault
}

// Grade is how severe a finding is.
type Grade string

// The grades, from harmless to fatal.
const (
	Note    Grade = "note"    // worth knowing
	Warning Grade = "warning" // a risk
	Error   Grade = "error"   // keeps a node from voting
)

// The codes of findings, beside those of faults.
const (
	CodeClock       = "clock"       // clocks that differ
	CodePersistence = "persistence" // what a restart loses, and writes that fail
	codeMemory      = "memory"      // that is nearly full
	codeHistory     = "history"     // the server was a replica before
	codeRights      = "rights"      // commands that the user may not run
	codeUnreachable = "unreachable" // no answer
	codeWrites      = "writes"      // the server refuses them
	codeSentinels   = "sentinels"   // what the node's Sentinels report
)

func finding(grade Grade, code, format string, args ...any) Finding {
	return Finding{grade, command.Fault{Code: code, Text: fmt.Sprintf(format, args...)}}
}
