package reply

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// mergedKind is a kind of commands that are merged.
type mergedKind struct {
	release, fenced, guarded bool
}

var mergedKinds = []mergedKind{{release: true}, {guarded: true}, {fenced: true}, {fenced: true, guarded: true}}

// commands returns some commands of one call.
func (k mergedKind) commands(n int) (all []*command.Command) {
	for i := range n {
		t := counting("T", []string{string(rune('a' + i))})
		t.UnderGuard = k.guarded
		all = append(all, newCommand(func(r *command.Request) {
			switch {
			case k.release:
				command.NewAnnouncingRelease(r, t, 0, 0)
			case k.fenced:
				command.NewFencedAcquire(r, t, time.Second, time.Hour, aHint, time.Second)
			default:
				command.NewAcquire(r, t, time.Second, time.Hour)
			}
		}))
	}
	return all
}

// alone returns what a server may answer a command by itself.
func (k mergedKind) alone(which byte) any {
	switch {
	case k.release:
		return [...]any{int64(0), int64(1), int64(5), int64(3)}[which%4]
	case which == 'e':
		return redis.Error("ERR redlock: TTL out of bounds")
	case k.fenced:
		return int64(int8(which)) // negative ones, too
	}
	return int64(which % 2)
}

// together returns what the script of a merged call makes of these results.
func (k mergedKind) together(results []any) any {
	if !slices.ContainsFunc(results, func(v any) bool { return v != int64(1) }) {
		return int64(len(results))
	}
	if !k.release {
		return results
	}
	var text []byte
	for _, v := range results {
		text = append(text, map[any]byte{int64(0): '0', int64(1): '1', int64(5): '2', int64(3): '3'}[v])
	}
	return text
}

// decoded returns a part's reply as a vote.
func decoded(c *command.Command, p Part) command.Reply { return Decode(c, p.Value, p.Err) }

// Each command of a merged call has the answer that it would have had by itself.
func FuzzMerged(f *testing.F) {
	for kind := range mergedKinds {
		for _, a := range []byte("\x00\x01\x02\x03\x7f\x80\xffe") {
			for _, b := range []byte("\x00\x01\x02\x03e") {
				f.Add(byte(kind), []byte{a, b})
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, which []byte) {
		k := mergedKinds[int(kind)%len(mergedKinds)]
		if len(which) < 2 || len(which) > command.MaxMerged {
			return
		}
		all := k.commands(len(which))
		var results []any
		for _, w := range which {
			results = append(results, k.alone(w))
		}
		parts, err := Merged(nil, all, k.together(results), nil)
		require.NoError(t, err)
		require.Len(t, parts, len(all))
		for i, c := range all {
			require.False(t, parts[i].Again)
			alone := Part{Value: results[i]}
			if err, ok := results[i].(redis.Error); ok {
				alone = Part{Err: err}
			}
			require.Equal(t, decoded(c, alone), decoded(c, parts[i]))
		}
	})
}

// Whatever a server answers, each command has one answer or is sent again, and nonsense is no vote.
func FuzzMergedReply(f *testing.F) {
	for kind := range mergedKinds {
		for _, said := range []string{":2\r\n", "$2\r\n12\r\n", "*2\r\n:1\r\n:0\r\n", "-NOSCRIPT x\r\n", "-ERR x\r\n", "+OK\r\n", "$-1\r\n"} {
			f.Add(byte(kind), []byte(said))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		v, ok, failed := received(data)
		if !ok {
			return
		}
		k := mergedKinds[int(kind)%len(mergedKinds)]
		all := k.commands(2)
		parts, err := Merged(nil, all, v, failed)
		require.Len(t, parts, len(all))
		for i, c := range all {
			r := decoded(c, parts[i])
			switch {
			case parts[i].Again:
				require.Error(t, failed)
				require.True(t, k.release)
			case err != nil:
				require.Equal(t, command.Reply{Outcome: command.Unknown, Err: ErrMerged}, r)
			case failed == nil:
				require.NotEqual(t, command.Unknown, r.Outcome)
			default:
				require.Error(t, r.Err)
				require.NotEqual(t, command.Granted, r.Outcome)
				require.NotEqual(t, command.Refused, r.Outcome)
			}
		}
	})
}

// Only the number of commands, or one valid value for each, is a reply. Any other one says nothing
// about any of them.
func TestAReplyToAMergedCallThatMakesNoSenseIsNoVote(t *testing.T) {
	one := int64(1)
	for _, k := range mergedKinds {
		replies := []any{int64(0), one, int64(3), int64(-2), "OK", nil, []any{}, []any{one}, []any{one, one, one}}
		switch {
		case k.release:
			for _, text := range []string{"", "1", "111", "14", "1x", "1\x00"} {
				replies = append(replies, []byte(text))
			}
			replies = append(replies, []any{one, one})
		default:
			for _, second := range []any{[]byte("1"), nil, "OK", redis.Error("ERR else"), redis.Error("NOSCRIPT no"), []any{one}, int64(-1 << 63)} {
				replies = append(replies, []any{one, second})
			}
			replies = append(replies, []byte("11"))
		}
		if k.guarded && !k.fenced {
			replies = append(replies, []any{one, int64(2)}, []any{one, int64(-1)})
		}
		for _, v := range replies {
			parts, err := Merged(nil, k.commands(2), v, nil)
			require.ErrorIs(t, err, ErrMerged, "%+v: %v", k, v)
			require.Equal(t, []Part{{Err: ErrMerged}, {Err: ErrMerged}}, parts)
		}
	}
}

// An error whose code proves that nothing was written is each acquire's own. After any other error each
// acquire may have been executed. A release is sent again, by itself, unless the server does not know the script.
func TestAnErrorOfAMergedCallMayComeAfterAWrite(t *testing.T) {
	for text, outcome := range map[string]command.Outcome{
		"OOM command not allowed":                                 command.Failed,
		"MISCONF Errors writing to the disk":                      command.Failed,
		"BUSY Redis is busy running a script":                     command.Failed,
		"CROSSSLOT Keys in request don't hash to the same slot":   command.Failed,
		"NOSCRIPT No matching script":                             command.Failed,
		"NOPERM No permissions to access a key":                   command.Unknown,
		"ERR The user executing the script can't access this key": command.Unknown,
		"ERR ACL failure in script: this user has no permissions": command.Unknown,
		"ERR redlock: TTL out of bounds":                          command.Unknown,
		"ERR unknown command 'MGET'":                              command.Unknown,
		"WRONGTYPE Operation against a key":                       command.Unknown,
		"ERR something else":                                      command.Unknown,
	} {
		for _, k := range mergedKinds {
			all := k.commands(2)
			parts, err := Merged(nil, all, nil, redis.Error(text))
			require.NoError(t, err)
			require.Len(t, parts, 2)
			for i, p := range parts {
				if k.release && !strings.HasPrefix(text, "NOSCRIPT") {
					require.Equal(t, Part{Again: true}, p, text)
					continue
				}
				r := decoded(all[i], p)
				require.Equal(t, outcome, r.Outcome, text)
				require.EqualError(t, r.Err, text)
			}
		}
	}
}
