package command_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

func terms(token string, keys ...string) *command.LockArgs {
	var t command.LockArgs
	t.Set(keys, token)
	return &t
}

// scripts returns the scripts by their names.
func scripts() map[string]*command.Script {
	all := map[string]*command.Script{}
	for _, s := range command.Scripts() {
		all[s.Name] = s
	}
	return all
}

func TestEveryRequestIsPutOnTheWireAsTheProtocolSays(t *testing.T) {
	const ttl, most = 30 * time.Second, time.Hour
	one, two := terms("tok", "k"), terms("tok", "k1", "k2")
	for name, test := range map[string]struct {
		fill   func(r *command.Request)
		script string
		want   []any // the command and its arguments; of a script, those after the hash
		op     command.Op
	}{
		"one key is plain Redlock": {
			func(r *command.Request) { command.NewAcquire(r, one, ttl, most) }, "",
			[]any{"SET", "k", "tok", "NX", "PX", int64(30000)},
			command.Acquire,
		},
		"several keys are one script": {
			func(r *command.Request) { command.NewAcquire(r, two, ttl, most) }, "acquire",
			[]any{int64(2), "k1", "k2", "tok", int64(30000), int64(3600000)},
			command.Acquire,
		},
		"extend": {
			func(r *command.Request) { command.NewExtend(r, one, ttl, most, 0) }, "extend",
			[]any{int64(1), "k", "tok", int64(30000), int64(3600000)},
			command.Extend,
		},
		"extend several": {
			func(r *command.Request) { command.NewExtend(r, two, ttl, most, 0) }, "extend",
			[]any{int64(2), "k1", "k2", "tok", int64(30000), int64(3600000)},
			command.Extend,
		},
		"release": {
			func(r *command.Request) { command.NewRelease(r, one) }, "release",
			[]any{int64(1), "k", "tok"},
			command.Release,
		},
		"release several": {
			func(r *command.Request) { command.NewRelease(r, two) }, "release",
			[]any{int64(2), "k1", "k2", "tok"},
			command.Release,
		},
		"shorten": {
			func(r *command.Request) { command.NewShorten(r, two, 10*time.Millisecond, most) }, "shorten",
			[]any{int64(2), "k1", "k2", "tok", int64(10), int64(3600000), int64(0), int64(0)},
			command.Shorten,
		},
		"shorten after a wait": {
			func(r *command.Request) {
				command.NewShorten(r, one, 10*time.Millisecond, most)
				r.Announces(1, 1500*time.Microsecond)
			}, "shorten",
			[]any{int64(1), "k", "tok", int64(10), int64(3600000), int64(1), int64(1500)},
			command.Shorten,
		},
		"inspect": {
			func(r *command.Request) { command.NewInspect(r, two) }, "inspect",
			[]any{int64(2), "k1", "k2"},
			command.Inspect,
		},
		"ping": {command.NewPing, "", []any{"PING"}, command.Ping},
		"info": {command.NewInfo, "", []any{"INFO"}, command.Info},
	} {
		t.Run(name, func(t *testing.T) {
			var r command.Request
			command.NewAcquire(&r, terms("former", "a", "b", "c"), time.Second, time.Second) // the request's former content
			command.NewAcquire(&r, terms("former", "a"), time.Second, time.Second)
			test.fill(&r)
			require.Equal(t, test.op, r.Op)
			require.Equal(t, test.script != "", r.Scripted())
			command, args := r.AppendCall(nil, false)
			if test.script == "" {
				require.Equal(t, test.want, append([]any{command}, args...))
				byText, again := r.AppendCall(nil, true)
				require.Equal(t, command, byText)
				require.Equal(t, args, again)
				return
			}
			s := scripts()[test.script]
			require.Equal(t, "EVALSHA", command)
			require.Equal(t, append([]any{s.Hash}, test.want...), args)
			command, args = r.AppendCall(nil, true)
			require.Equal(t, "EVAL", command)
			require.Equal(t, append([]any{s.Source}, test.want...), args)
			_, again := r.AppendCall(nil, false)
			require.Equal(t, s.Hash, again[0], "the request stays as it was")
		})
	}
}

func TestARequestSaysWhatItIsAbout(t *testing.T) {
	var r command.Request
	command.NewExtend(&r, terms("tok", "k1", "k2"), time.Second, time.Minute, 0)
	require.Equal(t, []string{"k1", "k2"}, r.Keys)
	require.Equal(t, "tok", r.Token())
	require.Equal(t, time.Second, r.TTL)
	require.Equal(t, time.Minute, r.MaxTTL)
	command.NewPing(&r)
	require.Empty(t, r.Keys)
	require.Empty(t, r.Token())
}

func TestOnlyAnAcquireCreatesAndOnlyUndosUndo(t *testing.T) {
	for op, want := range map[command.Op]struct {
		name            string
		creates, undoes bool
	}{
		command.Acquire:      {"acquire", true, false},
		command.Confirm:      {"confirm", false, false},
		command.Repair:       {"repair", true, false},
		command.Extend:       {"extend", false, false},
		command.Release:      {"release", false, true},
		command.Shorten:      {"shorten", false, true},
		command.Inspect:      {"inspect", false, false},
		command.VerifyMarker: {"verify", false, false},
		command.Info:         {"info", false, false},
		command.Ping:         {"ping", false, false},
		command.Poll:         {"poll", false, false},
		command.Sweep:        {"sweep", false, false},
	} {
		require.Equal(t, want.name, op.String())
		require.Equal(t, want.creates, op.Creates(), want.name)
		require.Equal(t, want.undoes, op.Undoes(), want.name)
	}
	for o, want := range map[command.Outcome]string{
		command.Granted: "granted", command.Refused: "refused", command.Failed: "failed", command.Unknown: "unknown", 99: "unknown",
	} {
		require.Equal(t, want, o.String())
	}
	require.Equal(t, command.Unknown, command.Reply{}.Outcome, "what nobody filled in is no vote")
}

func TestARequestExpiresAtItsNotAfterInstant(t *testing.T) {
	r := command.Request{NotAfter: 5}
	require.False(t, r.Expired(4))
	require.True(t, r.Expired(5))
	require.False(t, (&command.Request{}).Expired(5), "without such an instant never")
}

func TestTTLsAreSentInWholeMilliseconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		10 * time.Millisecond: 10, 10*time.Millisecond + 999*time.Microsecond: 10, 999 * time.Microsecond: 0,
		0: 0, 24 * time.Hour: 86400000, 1<<63 - 1: 9223372036854,
	} {
		for range 2 { // the second one is the boxed value of the first
			var r command.Request
			command.NewAcquire(&r, terms("tok", "k"), ttl, ttl)
			_, args := r.AppendCall(nil, false)
			require.Equal(t, want, args[4], ttl)
		}
	}
}

// A size that is too small would let a batch exceed its bound.
func TestASizeIsNeverLessThanWhatGoesOverTheWire(t *testing.T) {
	for _, keys := range []int{1, 2, 3, 100, 1024} {
		for _, length := range []int{1, 9, 100, 70_000 / keys} {
			names := make([]string, keys)
			for i := range names {
				names[i] = strings.Repeat("k", length)
			}
			tm := terms(command.NewToken(strings.Repeat("o", 100)), names...)
			for _, fill := range []func(r *command.Request){
				func(r *command.Request) { command.NewAcquire(r, tm, 24*time.Hour, 24*time.Hour) },
				func(r *command.Request) { command.NewExtend(r, tm, 24*time.Hour, 24*time.Hour, 0) },
				func(r *command.Request) { command.NewRelease(r, tm) },
				func(r *command.Request) { command.NewShorten(r, tm, 24*time.Hour, 24*time.Hour) },
				func(r *command.Request) { command.NewInspect(r, tm) },
				command.NewPing,
			} {
				var r command.Request
				fill(&r)
				require.GreaterOrEqual(t, r.Size(), onTheWire(r.AppendCall(nil, false)), r.Op)
				require.GreaterOrEqual(t, r.Size(), onTheWire(r.AppendCall(nil, true)), r.Op)
			}
		}
	}
}

// onTheWire returns a command's length in RESP.
func onTheWire(name string, args []any) int {
	n := len("*\r\n") + len(strconv.Itoa(1+len(args)))
	for _, a := range append([]any{name}, args...) {
		text := fmt.Sprint(a)
		n += len("$\r\n\r\n") + len(strconv.Itoa(len(text))) + len(text)
	}
	return n
}

// The hot path: a lock's terms are boxed once, and then its requests allocate nothing.
func TestRequestsOfOneKeyCostNoAllocation(t *testing.T) {
	keys, token := []string{"a key of a name of usual length"}, command.NewToken("owner")
	var tm command.LockArgs
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { tm.Set(keys, token) }), 2.0, "the key and the token")
	var r command.Request
	for name, fill := range map[string]func(){
		"acquire": func() { command.NewAcquire(&r, &tm, 30*time.Second, time.Hour) },
		"release": func() { command.NewRelease(&r, &tm) },
		"inspect": func() { command.NewInspect(&r, &tm) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, fill), name)
	}
	args := make([]any, 0, 8)
	require.Zero(t, testing.AllocsPerRun(100, func() { r.AppendCall(args, false) }))
	// Of two different numbers only one can be the one that was boxed last.
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { command.NewExtend(&r, &tm, 30*time.Second, time.Hour, 0) }), 4.0)
}

func TestAKeyStateIsFreeWithoutAKey(t *testing.T) {
	require.True(t, command.KeyState{}.Free())
	require.False(t, command.KeyState{Value: "tok"}.Free())
	require.False(t, command.KeyState{ForeignType: "list"}.Free())
}
