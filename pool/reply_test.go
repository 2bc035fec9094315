package pool

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
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

// oneOfEach returns a call of each operation: of one key, and of two where that is another command.
func oneOfEach() map[string]*call {
	return map[string]*call{
		"SET":     acquiring("A", time.Second, "k"),
		"acquire": acquiring("A", time.Second, "k", "l"),
		"extend":  extending("A", time.Second, "k"),
		"release": releasing("A", "k", "l"),
		"shorten": shortening("A", time.Second, "k", "l"),
		"inspect": inspecting("k"),
		"ping":    pinging(),
		"fence":   fencing("A", time.Second, "k"),
		"confirm": confirming("A", "k", "l"),
	}
}

func TestAServersStateIsNoVoteAndAnUnknownOneMayHaveExecuted(t *testing.T) {
	for state, want := range serverStates {
		for name, c := range oneOfEach() {
			r := decode(&c.Command, nil, redis.Error(want.text), "")
			require.Equal(t, want.outcome, r.Outcome, "%s: %s", state, name)
			require.False(t, r.NotSent, state)
			if want.code == "WRONGTYPE" {
				require.ErrorIs(t, r.Err, command.ErrForeignKey, state)
				continue
			}
			var se *ServerError
			require.ErrorAs(t, r.Err, &se, state)
			require.Equal(t, want.code, se.Code, state)
			shown, _, _ := strings.Cut(want.text, ", with args")
			require.EqualError(t, r.Err, shown, state)
			require.NotErrorIs(t, r.Err, context.DeadlineExceeded, state)
		}
	}
}

func TestOnlyTheReplyThatBelongsToACommandIsAVote(t *testing.T) {
	replies := map[string]any{
		"nil": nil, "OK": "OK", "PONG": "PONG", "QUEUED": "QUEUED", "ok": "ok", "bulk OK": []byte("OK"),
		"-1": int64(-1), "0": int64(0), "1": int64(1), "2": int64(2), "3": int64(3), "max": int64(math.MaxInt64),
		"bulk 1": []byte("1"), "empty": []byte{}, "no list": []any{}, "error in list": []any{redis.Error("OOM x"), []byte(""), int64(1)},
		"short list": []any{"string", []byte("A")}, "list": []any{"string", []byte("A"), int64(5)},
		"list of none":       []any{"none", []byte(""), int64(-2)},
		"list of two":        []any{"none", []byte(""), int64(-2), "none", []byte(""), int64(-2)},
		"list without types": []any{"", []byte("A"), int64(5)}, "list with nil": []any{"string", nil, int64(5)},
		"list without a number": []any{"string", []byte("A"), []byte("x")}, "list with minus 3": []any{"string", []byte("A"), int64(-3)},
	}
	votes := map[string]map[string]command.Outcome{
		"SET":     {"OK": command.Granted, "nil": command.Refused},
		"acquire": {"1": command.Granted, "0": command.Refused},
		"extend":  {"1": command.Granted, "0": command.Refused},
		"release": {"2": command.Granted, "1": command.Refused, "0": command.Refused},
		"shorten": {"2": command.Granted, "1": command.Refused, "0": command.Refused},
		"inspect": {"list": command.Granted, "list of none": command.Granted},
		"ping":    {"PONG": command.Granted},
		"fence":   {"-1": command.Granted, "0": command.Refused, "1": command.Granted, "2": command.Granted, "3": command.Granted},
		"confirm": {"1": command.Granted, "0": command.Refused},
	}
	for name, c := range oneOfEach() {
		for reply, v := range replies {
			r := decode(&c.Command, v, nil, "")
			require.Equal(t, votes[name][reply], r.Outcome, "%s answered by %s", name, reply) // none: Unknown
			if r.Outcome == command.Unknown {
				require.ErrorContains(t, r.Err, "pool: unexpected reply")
			} else {
				require.NoError(t, r.Err)
			}
		}
	}
	require.Equal(t, command.Unknown, decode(&command.Command{Request: &command.Request{Op: 77}}, "OK", nil, "").Outcome)
}

func TestAnErrorThatNoServerSentIsUnknown(t *testing.T) {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, errors.New("redigo: x"), redis.ErrNil} {
		r := decode(&acquiring("A", time.Second, "k").Command, nil, err, "")
		require.Equal(t, command.Unknown, r.Outcome)
		require.ErrorIs(t, r.Err, err)
	}
}

// A token is enough to release the lock, so it must not be shown.
func TestAnUnexpectedReplyShowsNoToken(t *testing.T) {
	for _, v := range []any{[]byte("TOKEN"), []any{"string", []byte("TOKEN")}, []any{[]byte("TOKEN")}} {
		for _, c := range oneOfEach() {
			require.NotContains(t, decode(&c.Command, v, nil, "").Err.Error(), "TOKEN")
		}
	}
	require.EqualError(t, decode(&pinging().Command, strings.Repeat("Q", 1000), nil, "").Err,
		`pool: unexpected reply "`+strings.Repeat("Q", 40)+`"`)
}

// Redis accepts a PX of 9e18 (docs/dev/hazards.md H23), which is more than a Duration can hold.
func TestATTLBeyondADurationIsTheLongestOne(t *testing.T) {
	for _, ms := range []int64{math.MaxInt64, 9e18, math.MaxInt64/1_000_000 + 1, math.MaxInt64 / 1_000_000} {
		r := decode(&inspecting("k").Command, []any{"string", []byte("A"), ms}, nil, "")
		require.Equal(t, command.Granted, r.Outcome)
		require.Equal(t, time.Duration(maxLifetime).Truncate(time.Millisecond), r.KeyStates[0].TTL)
		require.Positive(t, r.KeyStates[0].TTL+time.Hour, "a margin can be added")
	}
}

// Over the wire: a server's state passes, and leaves nothing behind.
func TestAServersStateIsReportedAndThenForgotten(t *testing.T) {
	for state, want := range serverStates {
		if want.text == "" || strings.HasPrefix(want.text, " ") || want.code == "NOSCRIPT" {
			continue // impossible over the wire, or has a test of its own
		}
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, pinging().outcome(t, n))
			m.FailWith("*", want.text)
			calls := oneOfEach()
			if isRoleChange(want.code) {
				calls = map[string]*call{"SET": calls["SET"]} // the following commands wait for a dial, or find that it fails
			}
			for _, c := range calls {
				r := c.on(n).reply(t)
				require.Equal(t, want.outcome, r.Outcome, state)
				require.Empty(t, m.Keys())
			}
			m.FailWith("*", "")
			dials := int64(1)
			if isRoleChange(want.code) {
				time.Sleep(time.Second)
				dials = n.Stats().Dials // rule 15: see health_check_test.go
			}
			require.Equal(t, command.Granted, acquiring("A", time.Second, "k").outcome(t, n), state)
			require.Equal(t, command.Granted, releasing("A", "k").outcome(t, n), state)
			require.Equal(t, dials, n.Stats().Dials, state)
		})
	}
}

// A command within a script fails because of the server's state, before the script has written.
func TestAScriptThatRunsIntoAStateHasWrittenNothing(t *testing.T) {
	set := func() *call { return acquiring("A", time.Second, "k") }
	acquire := func() *call { return acquiring("A", time.Second, "k", "l") }
	extend := func() *call { return extending("H", time.Hour, "held") }
	release := func() *call { return releasing("H", "held") }
	shorten := func() *call { return shortening("H", time.Second, "held") }
	inspect := func() *call { return inspecting("held") }
	fence := func() *call { return fencing("A", time.Second, "k", "l") }
	confirm := func() *call { return confirming("H", "held") }
	for cmd, calls := range map[string][]func() *call{
		"SET": {set, acquire, fence, confirm}, "EXISTS": {acquire, fence}, "GET": {extend, release, shorten, inspect, fence, confirm},
		"DEL": {release}, "PTTL": {extend, shorten, inspect}, "PEXPIRE": {extend, shorten}, "TYPE": {inspect}, "STRLEN": {inspect}, "TIME": {fence, confirm},
	} {
		for _, text := range []string{
			"OOM command not allowed when used memory > 'maxmemory'.", "MISCONF Errors writing to the AOF file",
			"READONLY You can't write against a read only replica.", "NOREPLICAS Not enough good replicas to write.",
			"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		} {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				m.Set("held", "H", time.Minute)
				m.FailWith(cmd, text)
				for _, call := range calls {
					synctest.Wait() // the connection has ended if the answer before ended it
					r := call().on(n).reply(t)
					require.Equal(t, command.Failed, r.Outcome, "%s: %v", cmd, r.Err)
					require.ErrorContains(t, r.Err, text)
				}
				require.Equal(t, []string{"held"}, m.Keys())
				require.InDelta(t, time.Minute, m.TTL("held"), float64(time.Second), "but for what dials take")
			})
		}
	}
}

// reading is a connection that only supports reads.
type reading struct {
	net.Conn
	io.Reader
}

func (r *reading) Read(p []byte) (int, error)      { return r.Reader.Read(p) }
func (r *reading) SetReadDeadline(time.Time) error { return nil }
func (r *reading) Close() error                    { return nil }

func FuzzDecode(f *testing.F) {
	for i, want := range []string{
		"+OK\r\n", "$-1\r\n", ":1\r\n", ":-1\r\n", "*3\r\n$6\r\nstring\r\n$1\r\nA\r\n:5\r\n", "*-1\r\n", "*1\r\n*1\r\n-OOM x\r\n",
		"-OOM x\r\n", "-\r\n", "-ERR \r\n", "- \r\n", "-ERR -READONLY\r\n", "$0\r\n\r\n", ":9223372036854775807\r\n",
		"*3\r\n$0\r\n\r\n$0\r\n\r\n:-9223372036854775808\r\n", "+\r\n", "*0\r\n", "$3\r\nab", "x\r\n", "*6\r\n+none\r\n$-1\r\n$1\r\nx\r\n",
	} {
		f.Add(byte(i), []byte(want))
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		if strings.Count(string(data), "*") > 4 {
			return // redigo allocates a list of any announced length
		}
		for line := range strings.SplitSeq(string(data), "\r\n") {
			if len(line) > 5 && (line[0] == '*' || line[0] == '$') {
				return
			}
		}
		c := redis.NewConn(&reading{Reader: strings.NewReader(string(data))}, 0, 0)
		calls := []*call{
			acquiring("A", time.Second, "k"), acquiring("A", time.Second, "k", "l"), extending("A", time.Second, "k"),
			releasing("A", "k", "l"), shortening("A", time.Second, "k"), inspecting("k"), inspecting("k", "l"), pinging(),
			fencing("A", time.Second, "k"), confirming("A", "k"),
		}
		cmd := &calls[int(which)%len(calls)].Command
		v, err := c.Receive()
		if err != nil && c.Err() != nil {
			return // the connection is broken, and nothing is decoded
		}
		r := decode(cmd, v, err, "hunter2")
		switch r.Outcome {
		case command.Granted:
			require.NoError(t, err)
			require.NoError(t, r.Err)
		case command.Unknown, command.Failed:
			require.Error(t, r.Err)
			_ = r.Err.Error()
		case command.Refused:
		default:
			t.Fatalf("outcome %d", r.Outcome)
		}
		if cmd.Op == command.Inspect && r.Outcome == command.Granted {
			require.Len(t, r.KeyStates, len(cmd.Keys))
		} else {
			require.Empty(t, r.KeyStates)
		}
		require.False(t, r.NotSent)
		require.Equal(t, cmd.Hint() != 0 && r.Outcome == command.Granted, r.Fence != 0)
		require.Less(t, r.Fence, int64(1<<53))
	})
}
