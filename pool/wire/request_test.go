package wire_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

func terms(token string, keys ...string) *wire.LockArgs {
	var t wire.LockArgs
	t.Set(keys, token)
	return &t
}

// scripts are found by their name.
func scripts() map[string]*wire.Script {
	all := map[string]*wire.Script{}
	for _, s := range wire.Scripts() {
		all[s.Name] = s
	}
	return all
}

func TestEveryRequestIsPutOnTheWireAsTheProtocolSays(t *testing.T) {
	const ttl, most = 30 * time.Second, time.Hour
	one, two := terms("tok", "k"), terms("tok", "k1", "k2")
	for name, test := range map[string]struct {
		fill   func(r *wire.Request)
		script string
		want   []any // the command and its arguments, of a script those behind the hash
		op     wire.Op
	}{
		"one key is plain Redlock": {
			func(r *wire.Request) { wire.NewAcquire(r, one, ttl, most) }, "",
			[]any{"SET", "k", "tok", "NX", "PX", int64(30000)},
			wire.Acquire,
		},
		"several keys are one script": {
			func(r *wire.Request) { wire.NewAcquire(r, two, ttl, most) }, "acquire",
			[]any{int64(2), "k1", "k2", "tok", int64(30000), int64(3600000)},
			wire.Acquire,
		},
		"extend": {
			func(r *wire.Request) { wire.NewExtend(r, one, ttl, most, 0) }, "extend",
			[]any{int64(1), "k", "tok", int64(30000), int64(3600000)},
			wire.Extend,
		},
		"extend several": {
			func(r *wire.Request) { wire.NewExtend(r, two, ttl, most, 0) }, "extend",
			[]any{int64(2), "k1", "k2", "tok", int64(30000), int64(3600000)},
			wire.Extend,
		},
		"release": {
			func(r *wire.Request) { wire.NewRelease(r, one) }, "release",
			[]any{int64(1), "k", "tok"},
			wire.Release,
		},
		"release several": {
			func(r *wire.Request) { wire.NewRelease(r, two) }, "release",
			[]any{int64(2), "k1", "k2", "tok"},
			wire.Release,
		},
		"shorten": {
			func(r *wire.Request) { wire.NewShorten(r, two, 10*time.Millisecond, most) }, "shorten",
			[]any{int64(2), "k1", "k2", "tok", int64(10), int64(3600000)},
			wire.Shorten,
		},
		"inspect": {
			func(r *wire.Request) { wire.NewInspect(r, two) }, "inspect",
			[]any{int64(2), "k1", "k2"},
			wire.Inspect,
		},
		"ping":    {wire.NewPing, "", []any{"PING"}, wire.Ping},
		"examine": {func(r *wire.Request) { wire.NewExamine(r, "k") }, "", []any{"INFO"}, wire.Examine},
	} {
		t.Run(name, func(t *testing.T) {
			var r wire.Request
			wire.NewAcquire(&r, terms("former", "a", "b", "c"), time.Second, time.Second) // what stood there before
			wire.NewAcquire(&r, terms("former", "a"), time.Second, time.Second)
			test.fill(&r)
			require.Equal(t, test.op, r.Op)
			require.Equal(t, test.script != "", r.Scripted())
			command, args := r.Call(false)
			if test.script == "" {
				require.Equal(t, test.want, append([]any{command}, args...))
				byText, again := r.Call(true)
				require.Equal(t, command, byText)
				require.Equal(t, args, again)
				return
			}
			s := scripts()[test.script]
			require.Equal(t, "EVALSHA", command)
			require.Equal(t, append([]any{s.Hash}, test.want...), args)
			command, args = r.Call(true)
			require.Equal(t, "EVAL", command)
			require.Equal(t, append([]any{s.Source}, test.want...), args)
			_, unchanged := r.Call(false)
			require.Equal(t, s.Hash, unchanged[0], "the shared arguments stay as they were")
		})
	}
}

func TestARequestSaysWhatItIsAbout(t *testing.T) {
	var r wire.Request
	wire.NewExtend(&r, terms("tok", "k1", "k2"), time.Second, time.Minute, 0)
	require.Equal(t, []string{"k1", "k2"}, r.Keys)
	require.Equal(t, "tok", r.Token)
	require.Equal(t, time.Second, r.TTL)
	require.Equal(t, time.Minute, r.MaxTTL)
	wire.NewPing(&r)
	require.Empty(t, r.Keys)
	require.Empty(t, r.Token)
}

func TestOnlyAnAcquireCreatesAndOnlyUndosUndo(t *testing.T) {
	for op, want := range map[wire.Op]struct {
		name            string
		creates, undoes bool
	}{
		wire.Acquire:      {"acquire", true, false},
		wire.Confirm:      {"confirm", false, false},
		wire.Repair:       {"repair", true, false},
		wire.Extend:       {"extend", false, false},
		wire.Release:      {"release", false, true},
		wire.Shorten:      {"shorten", false, true},
		wire.Inspect:      {"inspect", false, false},
		wire.VerifyMarker: {"verify", false, false},
		wire.Admit:        {"admit", false, false},
		wire.Examine:      {"examine", false, false},
		wire.Ping:         {"ping", false, false},
		wire.Poll:         {"poll", false, false},
		wire.Op(99):       {"op(99)", false, false},
	} {
		require.Equal(t, want.name, op.String())
		require.Equal(t, want.creates, op.Creates(), want.name)
		require.Equal(t, want.undoes, op.Undoes(), want.name)
	}
	for o, want := range map[wire.Outcome]string{
		wire.Granted: "granted", wire.Refused: "refused", wire.Failed: "failed", wire.Unknown: "unknown", 99: "unknown",
	} {
		require.Equal(t, want, o.String())
	}
	require.Equal(t, wire.Unknown, wire.Reply{}.Outcome, "what nobody filled in is no vote")
}

func TestARequestExpiresAtItsNotAfterInstant(t *testing.T) {
	c := clock.NewSkewed(clock.Runtime())
	c.Stall()
	r := wire.Request{Clock: c, NotAfter: c.Now().Add(time.Second)}
	require.False(t, r.Expired())
	c.Jump(time.Second - 1)
	require.False(t, r.Expired())
	c.Jump(1)
	require.True(t, r.Expired())
	r.Clock = nil
	require.False(t, r.Expired(), "without a clock never")
}

func TestTTLsAreSentInWholeMilliseconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		10 * time.Millisecond: 10, 10*time.Millisecond + 999*time.Microsecond: 10, 999 * time.Microsecond: 0,
		0: 0, 24 * time.Hour: 86400000, 1<<63 - 1: 9223372036854,
	} {
		for range 2 { // the second one is the boxed one of the first
			var r wire.Request
			wire.NewAcquire(&r, terms("tok", "k"), ttl, ttl)
			_, args := r.Call(false)
			require.Equal(t, want, args[4], ttl)
		}
	}
}

// Too few would let a batch outgrow its bound.
func TestASizeIsNeverLessThanWhatGoesOverTheWire(t *testing.T) {
	for _, keys := range []int{1, 2, 3, 100, 1024} {
		for _, length := range []int{1, 9, 100, 70_000 / keys} {
			names := make([]string, keys)
			for i := range names {
				names[i] = strings.Repeat("k", length)
			}
			tm := terms(wire.NewToken(strings.Repeat("o", 100)), names...)
			for _, fill := range []func(r *wire.Request){
				func(r *wire.Request) { wire.NewAcquire(r, tm, 24*time.Hour, 24*time.Hour) },
				func(r *wire.Request) { wire.NewExtend(r, tm, 24*time.Hour, 24*time.Hour, 0) },
				func(r *wire.Request) { wire.NewRelease(r, tm) },
				func(r *wire.Request) { wire.NewShorten(r, tm, 24*time.Hour, 24*time.Hour) },
				func(r *wire.Request) { wire.NewInspect(r, tm) },
				wire.NewPing,
			} {
				var r wire.Request
				fill(&r)
				require.GreaterOrEqual(t, r.Size(), onTheWire(r.Call(false)), r.Op)
				require.GreaterOrEqual(t, r.Size(), onTheWire(r.Call(true)), r.Op)
			}
		}
	}
}

// onTheWire is a command's length in RESP.
func onTheWire(name string, args []any) int {
	n := len("*\r\n") + len(strconv.Itoa(1+len(args)))
	for _, a := range append([]any{name}, args...) {
		text := fmt.Sprint(a)
		n += len("$\r\n\r\n") + len(strconv.Itoa(len(text))) + len(text)
	}
	return n
}

// The hot path: a lock's terms are boxed once, and then its requests cost nothing.
func TestRequestsOfOneKeyCostNoAllocation(t *testing.T) {
	keys, token := []string{"a key of a name of usual length"}, wire.NewToken("owner")
	var tm wire.LockArgs
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { tm.Set(keys, token) }), 2.0, "the key and the token")
	var r wire.Request
	for name, fill := range map[string]func(){
		"acquire": func() { wire.NewAcquire(&r, &tm, 30*time.Second, time.Hour) },
		"release": func() { wire.NewRelease(&r, &tm) },
		"inspect": func() { wire.NewInspect(&r, &tm) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, fill), name)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Call(false) }))
	// Two different numbers can't both be the one that was boxed last.
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { wire.NewExtend(&r, &tm, 30*time.Second, time.Hour, 0) }), 4.0)
}

func TestAHoldIsFreeWhenNothingStandsThere(t *testing.T) {
	require.True(t, wire.KeyState{}.Free())
	require.False(t, wire.KeyState{Value: "tok"}.Free())
	require.False(t, wire.KeyState{ForeignType: "list"}.Free())
}

func TestAServerErrorShowsTheServersText(t *testing.T) {
	require.EqualError(t, &wire.ServerError{Code: "LOADING", Text: "LOADING Redis is loading"}, "LOADING Redis is loading")
}
