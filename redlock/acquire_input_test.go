package redlock

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// refuses asserts that err is ErrInvalid and its text has all these words.
func refuses(t *testing.T, err error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, ErrInvalid)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
}

// H22, H23: a TTL out of bounds is refused with an error that names the bounds, before anything is
// sent.
func TestTTLsOutOfBoundsAreRefusedAndNothingIsSent(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithMaxTTL(time.Hour))
		k, err := l.Acquire(bg, "held", time.Minute)
		require.NoError(t, err)
		fl.forget()
		for ttl, words := range map[time.Duration][]string{
			0:                                  {"TTL of 0s", "from 10ms to 1h0m0s", "WithMaxTTL"},
			-time.Second:                       {"TTL of -1s", "from 10ms to 1h0m0s"},
			math.MinInt64:                      {"TTL of -2562047h47m16.854775808s", "from 10ms"},
			1:                                  {"TTL of 1ns", "from 10ms"},
			999 * time.Microsecond:             {"TTL of 999µs", "from 10ms"},
			MinTTL - 1:                         {"TTL of 9.999999ms", "from 10ms"},
			MinTTL - time.Millisecond:          {"TTL of 9ms", "from 10ms"},
			MinTTL + 1:                         {"TTL of 10.000001ms", "whole milliseconds"},
			time.Second + 500*time.Microsecond: {"TTL of 1.0005s", "whole milliseconds"},
			time.Hour + time.Millisecond:       {"TTL of 1h0m0.001s", "to 1h0m0s"},
			math.MaxInt64:                      {"TTL of 2562047h47m16.854775807s", "to 1h0m0s"},
		} {
			_, err := l.Acquire(bg, "a", ttl)
			refuses(t, err, words...)
			_, err = l.TryAcquire(bg, "a", ttl)
			refuses(t, err, words...)
			_, err = l.AcquireAll(bg, []string{"a", "b"}, ttl)
			refuses(t, err, words...)
			refuses(t, l.Do(bg, "a", ttl, nil), words...)
			refuses(t, k.Extend(bg, ttl), words...)
			if ttl != 0 { // 0 selects the default
				_, err = l.Acquire(bg, "a", time.Minute, WithMinHold(ttl))
				require.ErrorIs(t, err, ErrInvalid)
				require.Equal(t, 1, strings.Count(err.Error(), "WithMinHold"), "%v", err)
			}
		}
		fl.answered()
		require.Zero(t, fl.count())
		for _, ttl := range []time.Duration{MinTTL, time.Hour} { // the bounds themselves are valid
			k, err := l.Acquire(bg, "a", ttl)
			require.NoError(t, err)
			require.NoError(t, k.Release(bg))
		}
	})
}

// Invalid names and sets of names are refused before anything is sent.
func TestNamesOutOfBoundsAreRefusedAndNothingIsSent(t *testing.T) {
	many := make([]string, maxNames+1)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	inBubble(t, 3, func(fl *testbed) {
		for _, c := range []struct {
			prefix string
			names  []string
			words  []string
		}{
			{"", []string{""}, []string{"name is empty"}},
			{"", []string{strings.Repeat("x", 513)}, []string{"name of 513 bytes", "at most 512"}},
			{"", []string{"redlock:x"}, []string{`"redlock:x"`, "reserved"}},
			{"red", []string{"lock:guard"}, []string{`"redlock:guard"`, "reserved"}},
			{"redlock", []string{":"}, []string{`"redlock:"`, "reserved"}},
			{"", []string{}, []string{"no names"}},
			{"", nil, []string{"no names"}},
			{"", []string{"b", "a", "b"}, []string{`"b"`, "twice"}},
			{"", many, []string{"1025 names", "at most 1024"}},
			{"", []string{"a", ""}, []string{"name is empty"}},
		} {
			l := fl.locker(WithKeyPrefix(c.prefix))
			fl.forget()
			if len(c.names) == 1 {
				_, err := l.Acquire(bg, c.names[0], time.Minute)
				refuses(t, err, c.words...)
				_, err = l.TryAcquire(bg, c.names[0], time.Minute)
				refuses(t, err, c.words...)
				_, err = l.Inspect(bg, c.names[0])
				refuses(t, err, c.words...)
				refuses(t, l.Do(bg, c.names[0], time.Minute, nil), c.words...)
			}
			_, err := l.AcquireAll(bg, c.names, time.Minute)
			refuses(t, err, c.words...)
			_, err = l.TryAcquireAll(bg, c.names, time.Minute)
			refuses(t, err, c.words...)
			fl.answered()
			require.Zero(t, fl.count())
		}
		_, err := fl.locker().AcquireAll(bg, []string{strings.Repeat("x", 512), "redloc", "redlock"}, time.Minute)
		require.NoError(t, err)
	})
}

// New refuses invalid settings.
func TestSettingsOutOfBoundsAreRefused(t *testing.T) {
	for _, c := range []struct {
		opt   Option
		words []string
	}{
		{WithNodeTimeout(-time.Second), []string{"WithNodeTimeout", "at least 1ms"}},
		{WithNodeTimeout(0), []string{"WithNodeTimeout", "at least 1ms"}},
		{WithNodeTimeout(time.Millisecond - 1), []string{"WithNodeTimeout", "at least 1ms"}},
		{WithDrift(-0.01, 0), []string{"WithDrift(-0.01, 0s)", "from 0 to 0.5"}},
		{WithDrift(0.51, 0), []string{"WithDrift(0.51, 0s)", "from 0 to 0.5"}},
		{WithDrift(math.NaN(), 0), []string{"WithDrift(NaN, 0s)", "from 0 to 0.5"}},
		{WithDrift(math.Inf(1), 0), []string{"WithDrift(+Inf, 0s)"}},
		{WithDrift(0.01, -1), []string{"WithDrift(0.01, -1ns)", "not negative"}},
		{WithMaxTTL(-time.Hour), []string{"WithMaxTTL(-1h0m0s)", "from 10ms to 8760h0m0s"}},
		{WithMaxTTL(0), []string{"WithMaxTTL(0s)"}},
		{WithMaxTTL(math.MaxInt64), []string{"WithMaxTTL", "to 8760h0m0s"}},
		{WithMaxTTL(time.Second + 1), []string{"WithMaxTTL", "whole milliseconds"}},
		{WithOwner("a:b"), []string{`WithOwner("a:b")`, "without a colon"}},
		{WithOwner("a\nb"), []string{`WithOwner("a\nb")`}},
		{WithOwner(strings.Repeat("x", 65)), []string{"WithOwner", "at most 64"}},
		{WithKeyPrefix("redlock:"), []string{`WithKeyPrefix("redlock:")`}},
		{WithKeyPrefix(`"app/"`), []string{"in quotes", "remove them"}},
		{WithKeyPrefix("'app/'"), []string{"in quotes"}},
		{WithKeyPrefix(strings.Repeat("x", 513)), []string{"WithKeyPrefix", "at most 512"}},
		{WithClock(nil), []string{"WithClock", "nil"}},
	} {
		_, err := newOver([]command.Voter{newFake("n1")}, c.opt)
		refuses(t, err, c.words...)
		oneLine(t, err)
	}
}

// Invalid options of one acquisition are refused, alone and in combination.
func TestLockOptionsOutOfBoundsAreRefusedAndNothingIsSent(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.forget()
		const day = 24 * time.Hour
		for _, c := range []struct {
			opts  []LockOption
			words []string
		}{
			{[]LockOption{WithMaxHold(-1)}, []string{"WithMaxHold(-1ns)", "at least 1ms"}},
			{[]LockOption{WithMaxHold(0)}, []string{"WithMaxHold(0s)", "at least 1ms"}},
			{[]LockOption{WithMinHold(-1)}, []string{"WithMinHold(-1ns)", "at least 10ms"}},
			{[]LockOption{WithMinHold(day + time.Millisecond)}, []string{"WithMinHold of 24h0m0.001s", "to 24h0m0s"}},
			{[]LockOption{WithProgress(-1)}, []string{"WithProgress(-1ns)", "at least 1ms"}},
			{[]LockOption{WithProgress(time.Second)}, []string{"WithProgress", "WithAutoExtend"}},
			{[]LockOption{WithStopMargin(-1)}, []string{"WithStopMargin(-1ns)", "at least 1ms"}},
			{[]LockOption{WithStopMargin(30*time.Second + 1)}, []string{"WithStopMargin(30.000000001s)", "half of the TTL of 1m0s"}},
			{[]LockOption{WithWait(5)}, []string{"WithWait(5ns)", "at least 1ms", "5 * time.Second"}},
			{[]LockOption{WithMaxHold(5)}, []string{"WithMaxHold(5ns)", "at least 1ms", "5 * time.Second"}},
			{[]LockOption{WithMinHold(5)}, []string{"WithMinHold(5ns)", "at least 10ms"}},
			{[]LockOption{WithProgress(5), WithAutoExtend()}, []string{"WithProgress(5ns)", "at least 1ms"}},
			{[]LockOption{WithStopMargin(time.Millisecond - 1)}, []string{"WithStopMargin(999.999µs)", "at least 1ms"}},
			{[]LockOption{WithMaxHold(time.Second), WithMinHold(2 * time.Second)}, []string{"WithMaxHold(1s)", "WithMinHold(2s)"}},
			{[]LockOption{WithMaxHold(time.Second), WithStopMargin(time.Second)}, []string{"WithMaxHold(1s)", "WithStopMargin(1s)"}},
		} {
			_, err := l.Acquire(bg, "a", time.Minute, c.opts...)
			refuses(t, err, c.words...)
			_, err = l.TryAcquireAll(bg, []string{"a"}, time.Minute, c.opts...)
			refuses(t, err, c.words...)
		}
		tight := fl.locker(WithNodeTimeout(100*time.Millisecond), WithDrift(0.5, time.Millisecond))
		fl.forget()
		_, err := tight.Acquire(bg, "a", 212*time.Millisecond)
		refuses(t, err, "TTL of 212ms", "100ms", "drift", "WithNodeTimeout")
		fl.answered()
		require.Zero(t, fl.count())
		_, err = tight.Acquire(bg, "a", 213*time.Millisecond)
		require.NoError(t, err)
	})
}

// New refuses an invalid list of nodes, and its error shows no password.
func TestListsOfNodesThatAreWrongAreRefused(t *testing.T) {
	a, b := newFake("n1"), newFake("n2")
	many := make([]command.Voter, 65)
	for i := range many {
		many[i] = newFake(strconv.Itoa(i))
	}
	for _, c := range []struct {
		nodes []command.Voter
		words []string
	}{
		{nil, []string{"no nodes", "at least one"}},
		{[]command.Voter{}, []string{"no nodes"}},
		{[]command.Voter{a, nil, b}, []string{"node 2 of 3 is nil"}},
		{[]command.Voter{a, b, newFake("n1")}, []string{"n1", "twice"}},
		{many, []string{"65 nodes, at most 64"}},
	} {
		_, err := newOver(c.nodes, WithClock(clock.Runtime()))
		refuses(t, err, c.words...)
	}
	_, err := New([]*pool.Node{nil}) // as after an error of pool.Open that was dropped
	refuses(t, err, "node 1 of 1 is nil")
}
