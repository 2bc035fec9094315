package command

// Script is a Lua script. A connection loads it before its first use.
//
// The scripts follow these rules. Whatever can fail comes before the first write, except in
// releases (see giveBack). Keys are named in KEYS. The bounds of a TTL are checked again on the
// server, because PEXPIRE by zero deletes (docs/dev/hazards.md H22). Numbers are passed on as the
// strings that they came as, or printed in full (H29).
type Script struct {
	Name   string
	Source string
	// Hash is the SHA-1 by which Redis knows the script, in hexadecimal. It is a constant that a
	// test checks: computing it at run time panics where only FIPS 140 algorithms are allowed
	// (docs/dev/rules.md rule 27).
	Hash string

	hash any       // Hash, boxed once
	bit  ScriptSet // of this script alone
	load *Request  // loads it

	merged *Script // does the same for many commands of one key each; nil if there is none
}

// call appends what a call names the script by: its hash, or its text.
func (s *Script) call(args []any, source bool) (name string, all []any) {
	if source {
		return "EVAL", append(args, s.Source)
	}
	return "EVALSHA", append(args, s.hash)
}

// ScriptSet is a set of scripts, such as those that are loaded on a connection.
type ScriptSet uint64

// forms are the forms of a script, of which a request takes one; nil where there is none. If a guarded form is missing the
// restart guard makes no difference.
type forms struct{ plain, guarded, fenced, fencedGuarded *Script }
