package reply

import (
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

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
		"shorten": {"2": command.Granted, "1": command.Refused, "0": command.Refused, "3": command.Refused},
		"inspect": {"list": command.Granted, "list of none": command.Granted},
		"ping":    {"PONG": command.Granted},
		"fence":   {"-1": command.Granted, "0": command.Refused, "1": command.Granted, "2": command.Granted, "3": command.Granted},
		"confirm": {"1": command.Granted, "0": command.Refused},
		"poll":    {"-1": command.Refused, "0": command.Refused, "1": command.Refused, "2": command.Refused, "3": command.Refused, "max": command.Refused},
	}
	for name, c := range oneOfEach() {
		for reply, v := range replies {
			r := Decode(c, v, nil)
			require.Equal(t, votes[name][reply], r.Outcome, "%s answered by %s", name, reply) // none: Unknown
			if r.Outcome == command.Unknown {
				require.ErrorContains(t, r.Err, "pool: unexpected reply")
			} else {
				require.NoError(t, r.Err)
			}
		}
	}
	require.Equal(t, command.Unknown, Decode(&command.Command{Request: &command.Request{Op: 77}}, "OK", nil).Outcome)
}

func TestAnErrorThatNoServerSentIsUnknown(t *testing.T) {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, errors.New("redigo: x"), redis.ErrNil} {
		r := Decode(acquiring("A", time.Second, "k"), nil, err)
		require.Equal(t, command.Unknown, r.Outcome)
		require.ErrorIs(t, r.Err, err)
	}
}

// A token is enough to release the lock, so it must not be shown.
func TestAnUnexpectedReplyShowsNoToken(t *testing.T) {
	for _, v := range []any{[]byte("TOKEN"), []any{"string", []byte("TOKEN")}, []any{[]byte("TOKEN")}} {
		for _, c := range oneOfEach() {
			require.NotContains(t, Decode(c, v, nil).Err.Error(), "TOKEN")
		}
	}
	require.EqualError(t, Decode(pinging(), strings.Repeat("Q", 1000), nil).Err,
		`pool: unexpected reply "`+strings.Repeat("Q", 40)+`"`)
}

// Redis accepts a PX of 9e18 (docs/dev/hazards.md H23), which is more than a Duration can hold.
func TestATTLBeyondADurationIsTheLongestOne(t *testing.T) {
	for _, ms := range []int64{math.MaxInt64, 9e18, math.MaxInt64/1_000_000 + 1, math.MaxInt64 / 1_000_000} {
		r := Decode(inspecting("k"), []any{"string", []byte("A"), ms}, nil)
		require.Equal(t, command.Granted, r.Outcome)
		require.Equal(t, time.Duration(maxLifetime).Truncate(time.Millisecond), r.KeyStates[0].TTL)
		require.Positive(t, r.KeyStates[0].TTL+time.Hour, "a margin can be added")
	}
}

// Servers repeat what they were sent, and a proxy may send anything.
func TestNoErrorShowsTheCommandsToken(t *testing.T) {
	const token = "me:ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, says := range []string{
		"ERR unknown command 'EVALSHA', with args beginning with: 'hash' '1' 'k' '" + token + "' ",
		"ERR wrong: " + token, "SOMECODE " + token + " " + token, token, "+" + token, "+OK " + token, "+" + strings.Repeat("x", 25) + token, "$29\r\n" + token,
		"ERR " + strings.Repeat("x", 495) + token, // cut off within the token
	} {
		for name, c := range map[string]*command.Command{
			"acquire": acquiring(token, time.Second, "k"), "release": releasing(token, "k"), "extend": extending(token, time.Second, "k"),
		} {
			var r command.Reply
			if status, ok := strings.CutPrefix(says, "+"); ok {
				r = Decode(c, status, nil)
			} else {
				r = Decode(c, nil, redis.Error(says))
			}
			require.Error(t, r.Err)
			require.NotContains(t, r.Err.Error(), token, "%s: %s", name, says)
			require.NotContains(t, r.Err.Error(), "ABCDEFGH", "%s: %s", name, says)
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

// received returns a reply or an error of a server. It is not ok if there is none.
func received(data []byte) (v any, ok bool, err error) {
	if strings.Count(string(data), "*") > 4 {
		return nil, false, nil // redigo allocates a list of any announced length
	}
	for line := range strings.SplitSeq(string(data), "\r\n") {
		if len(line) > 5 && (line[0] == '*' || line[0] == '$') {
			return nil, false, nil
		}
	}
	c := redis.NewConn(&reading{Reader: strings.NewReader(string(data))}, 0, 0)
	v, err = c.Receive()
	return v, err == nil || c.Err() == nil, err
}

func FuzzDecode(f *testing.F) {
	for i, want := range []string{
		"+OK\r\n", "$-1\r\n", ":1\r\n", ":-1\r\n", "*3\r\n$6\r\nstring\r\n$1\r\nA\r\n:5\r\n", "*-1\r\n", "*1\r\n*1\r\n-OOM x\r\n",
		"-OOM x\r\n", "-\r\n", "-ERR \r\n", "- \r\n", "-ERR -READONLY\r\n", "$0\r\n\r\n", ":9223372036854775807\r\n",
		"*3\r\n$0\r\n\r\n$0\r\n\r\n:-9223372036854775808\r\n", "+\r\n", "*0\r\n", "$3\r\nab", "x\r\n", "*6\r\n+none\r\n$-1\r\n$1\r\nx\r\n",
	} {
		f.Add(byte(i), []byte(want))
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		commands := []*command.Command{
			acquiring("A", time.Second, "k"), acquiring("A", time.Second, "k", "l"), extending("A", time.Second, "k"),
			releasing("A", "k", "l"), shortening("A", time.Second, "k"), inspecting("k"), inspecting("k", "l"), pinging(),
			fencing("A", time.Second, "k"), confirming("A", "k"),
		}
		cmd := commands[int(which)%len(commands)]
		v, ok, err := received(data)
		if !ok {
			return
		}
		r := Decode(cmd, v, err)
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
