package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/internal/env"
)

// EmptyFlag returns an error if a flag was given no value, as by a script with an empty variable. One that names
// nodes or files would otherwise get the value of the environment. pflag takes a -- for a value.
func EmptyFlag(f *pflag.FlagSet) (err error) {
	f.Visit(func(def *pflag.Flag) {
		switch value := def.Value.String(); {
		case value == "--":
			err = fmt.Errorf("flag needs an argument: --%s", def.Name)
		case value == "" && slices.Contains(nodeFlagNames, def.Name):
			err = fmt.Errorf("--%s is given and empty", def.Name)
		}
	})
	return err
}

// DurationFlag defines a flag as pflag does, with an error that names the units.
func DurationFlag(f *pflag.FlagSet, name string, value time.Duration, usage string) *time.Duration {
	p := new(time.Duration)
	DurationVar(f, p, name, "", value, usage)
	return p
}

// DurationVar is DurationFlag with a variable of the caller, and a second name of one letter unless it is "".
func DurationVar(f *pflag.FlagSet, p *time.Duration, name, letter string, value time.Duration, usage string) {
	*p = value
	f.VarP((*durationValue)(p), name, letter, usage)
}

// NameValues takes the names of values out of the usages: in completion the backquotes would show. Usages say the defaults.
func NameValues(f *pflag.FlagSet) {
	f.VisitAll(func(def *pflag.Flag) {
		name, usage := pflag.UnquoteUsage(def)
		def.Value, def.Usage, def.DefValue = namedValue{def.Value, name}, usage, ""
	})
}

// namedValue is the value of a flag that help calls by a name.
type namedValue struct {
	pflag.Value
	name string
}

func (v namedValue) Type() string { return cmp.Or(v.name, v.Value.Type()) }

// durationValue is the value of a flag that is a duration.
type durationValue time.Duration

func (d *durationValue) String() string { return time.Duration(*d).String() }

func (d *durationValue) Type() string { return "duration" }

func (d *durationValue) Set(text string) error {
	v, err := env.ParseDuration(text)
	*d = durationValue(v)
	return err
}

// nodeFlagNames name the nodes, and say how to reach them.
var nodeFlagNames = []string{"nodes", "nodes-file", "cacert", "cert", "key"}

// NodeFlags defines the flags of all subcommands that use nodes: those of the nodes, --prefix and --json.
func NodeFlags(f *pflag.FlagSet) {
	f.String("nodes", "", "the nodes' `URLs`, separated by commas (default: $REDLOCK_NODES)")
	f.String("nodes-file", "", "a `file` with the nodes' URLs, as in --nodes or one per line (default: $REDLOCK_NODES_FILE)")
	f.String("cacert", "", "a PEM `file` with the certificate authorities that the nodes' certificates are checked by "+
		"(default: the system's; only for rediss URLs)")
	f.String("cert", "", "a PEM `file` with the client certificate, its chain included (only for rediss URLs, with --key)")
	f.String("key", "", "a PEM `file` with the private key of --cert")
	f.String("prefix", "", "the prefix that makes a `key` of a NAME, the same for all its clients "+
		"(default: $REDLOCK_PREFIX, or none)")
	JSONFlag(f)
}

// GuardFlag defines --guard.
func GuardFlag(f *pflag.FlagSet) {
	DurationFlag(f, "guard", 0, "the restart guard's `maxTTL`, the same for all clients: a node that may have "+
		"forgotten locks does not vote for that long; 0: no guard (default: $REDLOCK_GUARD, or none)")
}

// JSONFlag defines --json.
func JSONFlag(f *pflag.FlagSet) { f.Bool("json", false, "print an object for programs (see above)") }
