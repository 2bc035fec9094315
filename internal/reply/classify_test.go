package reply

import (
	"context"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// inScript is what Redis 7 appends to the errors of scripts.
const inScript = " script: 94e6bb77c78b737ff1fa5a138a1399afa019ed96, on @user_script:3."

// serverStates are the replies of docs/dev/hazards.md H30 and H58, seen on Redis 7.0.15 unless
// they say otherwise.
var serverStates = map[string]struct {
	text    string
	outcome command.Outcome
	code    string
}{
	"out of memory":         {"OOM command not allowed when used memory > 'maxmemory'.", command.Failed, "OOM"},
	"out of memory, script": {"OOM command not allowed when used memory > 'maxmemory'." + inScript, command.Failed, "OOM"},
	"no replicas":           {"NOREPLICAS Not enough good replicas to write.", command.Failed, "NOREPLICAS"},
	"replica":               {"READONLY You can't write against a read only replica.", command.Failed, "READONLY"},
	"replica, script":       {"READONLY You can't write against a read only replica." + inScript, command.Failed, "READONLY"},
	"stale replica":         {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", command.Failed, "MASTERDOWN"},
	"no disk": {
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled",
		command.Failed, "MISCONF",
	},
	"busy":         {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", command.Failed, "BUSY"},
	"loading":      {"LOADING Redis is loading the dataset in memory", command.Failed, "LOADING"},
	"no password":  {"NOAUTH Authentication required.", command.Failed, "NOAUTH"},
	"no right":     {"NOPERM User default has no permissions to run the 'evalsha' command", command.Failed, "NOPERM"},
	"no right key": {"NOPERM No permissions to access a key", command.Failed, "NOPERM"},
	"no right, script": {
		"ERR The user executing the script can't run this command or subcommand script: d3c21d0c2b9ca22f82737626a27bcaf5d288f99f, on @user_script:1.",
		command.Failed, "ERR",
	},
	"no right to a key, script": {
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + inScript, command.Failed, "ERR",
	},
	"no right, script of Redis 6": {
		"ERR Error running script (call to f_52ece3bffc3a8cef02185fb886dc7df2e37538ab): @user_script:5: @user_script: 5: " +
			"The user executing the script can't run this command or subcommand ", command.Failed, "ERR",
	},
	"no right, script of Redis 6 that handles errors": {
		"@user_script: 10: The user executing the script can't run this command or subcommand", command.Failed, "",
	},
	"no right, script of Redis 8 and Valkey": {
		"ERR ACL failure in script: User app has no permissions to run the 'del' command script: 04c017ba14d57ed5eb3", command.Failed, "ERR",
	},
	"wrong password":     {"WRONGPASS invalid username-password pair or user is disabled.", command.Failed, "WRONGPASS"},
	"protected mode":     {"DENIED Redis is running in protected mode because protected mode is enabled", command.Failed, "DENIED"},
	"cluster down":       {"CLUSTERDOWN Hash slot not served", command.Failed, "CLUSTERDOWN"},
	"moved":              {"MOVED 3999 127.0.0.1:6381", command.Failed, "MOVED"},
	"ask":                {"ASK 3999 127.0.0.1:6381", command.Failed, "ASK"},
	"try again":          {"TRYAGAIN Multiple keys request during rehashing of slot", command.Failed, "TRYAGAIN"},
	"several slots":      {"CROSSSLOT Keys in request don't hash to the same slot", command.Failed, "CROSSSLOT"},
	"script not loaded":  {"NOSCRIPT No matching script. Please use EVAL.", command.Failed, "NOSCRIPT"},
	"sentinel":           {"ERR unknown command 'SET', with args beginning with: 'k' 'tok' 'NX' 'PX' '1000' ", command.Failed, "ERR"},
	"too many clients":   {"ERR max number of clients reached", command.Failed, "ERR"},
	"TTL of zero":        {"ERR invalid expire time in 'set' command", command.Failed, "ERR"},
	"our own bounds":     {"ERR redlock: TTL out of bounds", command.Failed, "ERR"},
	"wrong arguments":    {"ERR wrong number of arguments for 'evalsha' command", command.Failed, "ERR"},
	"replica of Redis 6": {redis6("READONLY You can't write against a read only replica."), command.Failed, "READONLY"},
	"memory of Redis 6":  {redis6("OOM command not allowed when used memory > 'maxmemory'."), command.Failed, "OOM"},
	"disk of Redis 6":    {redis6("MISCONF Redis is configured to save RDB snapshots"), command.Failed, "MISCONF"},

	"a list":            {"WRONGTYPE Operation against a key holding the wrong kind of value", command.Refused, "WRONGTYPE"},
	"a list, Redis 6":   {redis6("WRONGTYPE Operation against a key holding the wrong kind of value"), command.Refused, "WRONGTYPE"},
	"a script's defect": {"ERR user_script:3: attempt to compare number with nil" + inScript, command.Unknown, "ERR"},
	"a code not known":  {"NEWCODE something of a later version", command.Unknown, "NEWCODE"},
	"no code":           {"ERR something went wrong", command.Unknown, "ERR"},
	"lower case":        {"readonly you can't", command.Unknown, ""},
	"a code inside":     {"ERR tried -NEWCODE and READONLY", command.Unknown, "ERR"},
	"a longer code":     {"BUSYGROUP Consumer Group name already exists", command.Unknown, "BUSYGROUP"},
	"nothing at all":    {"", command.Unknown, ""},
	"only spaces":       {"  ", command.Unknown, ""},
}

// redis6 wraps an error as Redis before 7 does within a script.
func redis6(text string) string {
	return "ERR Error running script (call to f_94e6bb77c78b737ff1fa5a138a1399afa019ed96): @user_script:3: @user_script: 3: -" + text
}

func TestAServersStateIsNoVoteAndAnUnknownOneMayHaveExecuted(t *testing.T) {
	for state, want := range serverStates {
		for name, c := range oneOfEach() {
			r := Decode(c, nil, redis.Error(want.text))
			require.Equal(t, want.outcome, r.Outcome, "%s: %s", state, name)
			require.False(t, r.NotSent, state)
			if want.code == "WRONGTYPE" {
				require.ErrorIs(t, r.Err, command.ErrForeignKey, state)
				continue
			}
			var se *resp.ServerError
			require.ErrorAs(t, r.Err, &se, state)
			require.Equal(t, want.code, se.Code, state)
			shown, _, _ := strings.Cut(want.text, ", with args")
			require.EqualError(t, r.Err, shown, state)
			require.NotErrorIs(t, r.Err, context.DeadlineExceeded, state)
		}
	}
}
