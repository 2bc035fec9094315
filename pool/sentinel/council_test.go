package sentinel

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// hearing is a council that a text of events drives. An answer counts 4.9 s.
//
//	1a    Sentinel 1 names a, asked now
//	1a-3  … asked 3 s ago
//	1?    Sentinel 1 does not know the master
//	1x    Sentinel 1 cannot be queried
//	+3    3 s pass
type hearing struct {
	*council
	now      clock.Instant
	switched []string
}

func newHearing(sentinels int, now clock.Instant) *hearing {
	of := &Config{Master: "m", MaxAge: extraQuarantine}
	for i := range sentinels {
		of.Addresses = append(of.Addresses, fmt.Sprintf("s%d", i+1))
	}
	return &hearing{council: newCouncil("n1", of), now: now}
}

func (h *hearing) hear(t *testing.T, events string) {
	t.Helper()
	for e := range strings.FieldsSeq(events) {
		if passed, ok := strings.CutPrefix(e, "+"); ok {
			h.now = h.now.Add(seconds(t, passed))
			continue
		}
		i := int(e[0] - '1')
		switch master, ago, _ := strings.Cut(e[1:], "-"); master {
		case "x":
			h.failed(i, errors.New("refused"))
		case "?":
			h.answer(i, "", h.now)
		default:
			h.answer(i, master, h.now.Add(-seconds(t, ago)))
		}
	}
}

func (h *hearing) answer(i int, master string, asked clock.Instant) {
	from := h.answered(i, answer{sentinel: h.of.Addresses[i], master: master, asked: asked, answered: true}, h.now)
	if from != "" {
		h.switched = append(h.switched, from+"→"+h.choice.master)
	}
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(text, "0") + "s")
	require.NoError(t, err)
	return d
}

// says returns the master and how much longer it counts. If there is none, it returns "waits" if outstanding answers may still
// decide.
func (h *hearing) says() string {
	switch {
	case h.choice.counts(h.now):
		return h.choice.master + " " + h.choice.until.Sub(h.now).String()
	case h.mayStillDecide():
		return "waits"
	}
	return "none"
}

// councils is cases of councils: how many Sentinels, what happens, and what the council says then.
type councils map[string]struct {
	sentinels    int
	events, says string
}

func (all councils) check(t *testing.T) {
	t.Helper()
	for what, c := range all {
		// The origin of a clock has no meaning.
		for _, origin := range []time.Duration{time.Hour, -time.Hour} {
			h := newHearing(c.sentinels, clock.Instant(origin))
			h.hear(t, c.events)
			require.Equal(t, c.says, h.says(), what)
		}
	}
}

func TestAMasterIsNamedByAMajorityOfTheConfiguredSentinels(t *testing.T) {
	councils{
		"one of one":                         {1, "1a", "a 4.9s"},
		"all of three":                       {3, "1a 2a 3a", "a 4.9s"},
		"two of three":                       {3, "1a 2b 3a", "a 4.9s"},
		"two of three, and one is silent":    {3, "1a 2a", "a 4.9s"},
		"one of three":                       {3, "1a 2? 3?", "none"},
		"one of three, whatever it repeats":  {3, "1a 1a 1a 2? 3?", "none"},
		"two of four":                        {4, "1a 2a 3b 4?", "none"},
		"three of four":                      {4, "1a 2a 3a 4?", "a 4.9s"},
		"two of five":                        {5, "1a 2a 3? 4? 5?", "none"},
		"two of five, and three are dead":    {5, "1a 2a 3x 4x 5x", "none"},
		"none":                               {3, "1? 2? 3?", "none"},
		"each another one":                   {3, "1a 2b 3c", "none"},
		"another one, as two have changed":   {3, "1a 2a 3a 1b 2b", "b 4.9s"},
		"the same one, as only one changed":  {3, "1a 2a 3a 1b", "a 4.9s"},
		"none, as two do not know it now":    {3, "1a 2a 3a 1? 2?", "none"},
		"the same one, as two know it again": {3, "1a 2a 3a 1? 2? 1a", "a 4.9s"},
	}.check(t)
}

func TestAMasterCountsAsLongAsTheAnswersOfAMajority(t *testing.T) {
	councils{
		"the second latest of three":        {3, "1a-4 2a-1 3a-2", "a 2.9s"},
		"the older one of two":              {3, "1a-4 2b 3a-1", "a 900ms"},
		"the third latest of five":          {5, "1a 2a-1 3a-2 4a-3 5a-4", "a 2.9s"},
		"one is asked again, of two":        {3, "1a 2a +3 1a", "a 1.9s"},
		"two are asked again, of three":     {3, "1a 2a 3a +3 1a 2a", "a 4.9s"},
		"the last millisecond":              {3, "1a 2a 3a +4.899", "a 1ms"},
		"no more":                           {3, "1a 2a 3a +4.9", "none"},
		"two were asked too long ago":       {3, "1a-7 2a-4.9 3b", "none"},
		"a failure takes back no answer":    {3, "1a 2a +1 1x 2x 3x", "a 3.9s"},
		"nor does it make one count longer": {3, "1a 2a 3a +4.9 1x 2x", "none"},
		"nor does it bring one back":        {3, "1a 2a 3a 1? 2? 1x 2x 3x", "none"},
		"answers behind failures":           {3, "1x 2x 1a 2a", "a 4.9s"},
	}.check(t)
}

func TestADialWaitsOnlyForSentinelsThatCanDecide(t *testing.T) {
	councils{
		"all are silent":                          {3, "", "waits"},
		"the third may join either":               {3, "1a 2b", "waits"},
		"the third may join the first":            {3, "1a 2x", "waits"},
		"the third would be alone":                {3, "1x 2x", "none"},
		"and joins none who failed since":         {3, "1a 2a 1x 2x +5", "none"},
		"none is silent":                          {3, "1a 2b 3x", "none"},
		"none is silent, and all is too old":      {3, "1a 2a 3a +5", "none"},
		"of five two may join the first":          {5, "1a 2b 3?", "waits"},
		"of five one and the first are too few":   {5, "1a 2b 3? 4c", "none"},
		"of five the last may join the first two": {5, "1a 2a 3b 4b", "waits"},
	}.check(t)
}

// The first master is no switch, and neither is a master that is named again.
func TestASwitchIsFromTheLastMasterToAnotherOne(t *testing.T) {
	for what, c := range map[string]struct{ events, switched string }{
		"the first one":                   {"1a 2a 3a", ""},
		"another one by one Sentinel":     {"1a 2a 3a 1b", ""},
		"another one by two":              {"1a 2a 3a 1b 2b", "a→b"},
		"another one by all":              {"1a 2a 3a 1b 2b 3b", "a→b"},
		"there and back":                  {"1a 2a 3a 1b 2b 1a", "a→b b→a"},
		"another one, too long ago":       {"1a 2a 3a 1b-4.9 2b-4.9", ""},
		"another one, just not too long":  {"1a 2a 3a 1b-4.899 2b-4.899", "a→b"},
		"the same one, unknown meanwhile": {"1a 2a 3a 1? 2? 1a 2a", ""},
		"another one, unknown meanwhile":  {"1a 2a 3a 1? 2? 1b 2b", "a→b"},
		"the same one, dead meanwhile":    {"1a 2a 3a 1x 2x 3x +9 1a 2a", ""},
		"another one, dead meanwhile":     {"1a 2a 3a 1x 2x 3x +9 1b 2b", "a→b"},
	} {
		h := newHearing(3, clock.Instant(time.Hour))
		h.hear(t, c.events)
		require.Equal(t, c.switched, strings.Join(h.switched, " "), what)
		require.Equal(t, int64(len(h.switched)), h.switches, what)
	}
}

func TestOfTheSentinelsThoseAgreeThatNamedTheMasterInTime(t *testing.T) {
	for events, agree := range map[string]int{
		"":                     0,
		"1? 2?":                0,
		"1a":                   0,
		"1a 2a":                2,
		"1a 2b 3a":             2,
		"1a 2a 3a":             3,
		"1a 2a 3a 1? 2x":       2,
		"1a 2a 3a +1 3a +3.9":  1,
		"1a 2a 3a +4.9":        0,
		"1a 2a 3a 1b 2b":       2,
		"1a 2a 3a +1 1? 2? 3a": 1,
		"1a-4.9 2a-4.899 3a-2": 2,
	} {
		h := newHearing(3, clock.Instant(time.Hour))
		h.hear(t, events)
		require.Equal(t, agree, h.agree(h.now), events)
	}
	h := newHearing(3, clock.Instant(time.Hour))
	h.hear(t, "1a 2b 3a +9 3x")
	require.Equal(t, []string{"s1", "s3"}, h.naming("a"), "of those who named it, however long ago")
}

func TestOnlyTheMasterThatCountsMayVote(t *testing.T) {
	h := newHearing(3, clock.Instant(time.Hour))
	require.ErrorIs(t, h.choice.MayVote("a", h.now), command.ErrUnfit)
	require.ErrorIs(t, h.choice.MayVote("", h.now), command.ErrUnfit)
	h.hear(t, "1a 2a")
	ch := h.choice
	require.NoError(t, ch.MayVote("a", h.now))
	require.Equal(t, errSwitched, ch.MayVote("b", h.now))
	end := h.now.Add(counts4900)
	require.NoError(t, ch.MayVote("a", end-1))
	require.ErrorIs(t, ch.MayVote("a", end), command.ErrUnfit)
	require.ErrorIs(t, ch.MayVote("b", end), command.ErrUnfit)
}

// A goroutine may hold a choice while the next answers come.
func TestAReasonIsAboutTheAnswersOfItsTime(t *testing.T) {
	h := newHearing(4, clock.Instant(time.Hour))
	h.hear(t, "1a 2? 3x")
	ch := h.choice
	h.hear(t, "1b 2b 3b 4b")
	require.NoError(t, h.choice.MayVote("b", h.now))
	require.EqualError(t, ch.MayVote("a", h.now), "pool: "+command.ErrUnfit.Error()+": n1 follows 4 Sentinels, of which 3 must name one "+
		"master as m within 5s: s1 named a; s2 does not know the master; s3 cannot be queried (refused); s4 has not answered yet")
}

// Every command asks, and a text lists up to 32 Sentinels.
func TestAReasonIsBuiltOnceAndOnlyIfItIsAskedFor(t *testing.T) {
	h := newHearing(3, clock.Instant(time.Hour))
	refused := &built{}
	h.failed(0, refused)
	h.hear(t, "2a 3a")
	require.NoError(t, h.choice.MayVote("a", h.now))
	require.Zero(t, refused.times)
	h.hear(t, "+5")
	for range 3 {
		require.ErrorContains(t, h.choice.MayVote("a", h.now), "s1 cannot be queried (refused); s2 named a")
	}
	require.Equal(t, 1, refused.times)
}

// built is an error that counts how often its text is built.
type built struct{ times int }

func (b *built) Error() string {
	b.times++
	return "refused"
}

// Whatever the Sentinels answer, the council says what counting over all answers says.
func FuzzCouncil(f *testing.F) {
	f.Add([]byte{2, 0, 8, 16, 2, 10, 18, 7 + 8*10, 6, 14, 7 + 8*31, 7 + 8*31})
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		some := make([]byte, 40)
		for i := range some {
			some[i] = byte(r.Uint32())
		}
		f.Add(some)
	}
	f.Fuzz(func(t *testing.T, events []byte) {
		if len(events) == 0 {
			return
		}
		n := 1 + int(events[0])%5
		h, all, last, switched := newHearing(n, clock.Instant(time.Hour)), history{}, "", []string(nil)
		for _, b := range events[1:min(len(events), 40)] {
			i := int(b/8) % n
			switch what := b % 8; what {
			case 0, 1, 2, 3, 4, 5: // b was named up to 4.8 s ago, and c too long ago
				master := []string{"a", "a", "b", "b", "c", ""}[what]
				asked := h.now.Add(-time.Duration([]int{0, 1500, 0, 4800, 4900, 0}[what]) * time.Millisecond)
				h.answer(i, master, asked)
				all = append(all, said{i, master, asked, false})
				if now := all.master(h.now, n); now != "" {
					if last != "" && now != last {
						switched = append(switched, last+"→"+now)
					}
					last = now
				}
			case 6:
				h.failed(i, errors.New("refused"))
				all = append(all, said{sentinel: i, failed: true})
			case 7:
				h.now = h.now.Add(time.Duration(b/8) * 100 * time.Millisecond)
			}
			require.Equal(t, switched, h.switched)
			require.Equal(t, int64(len(switched)), h.switches)
			require.Equal(t, last, h.choice.master)
			require.Equal(t, all.mayDecide(n), h.mayStillDecide())
			require.Equal(t, all.votes(last, h.now, n), h.agree(h.now))
			for _, at := range all.instants(h.now) {
				master := all.master(at, n)
				for _, address := range masters {
					want := map[bool]error{true: nil, false: errSwitched}[address == master]
					if master == "" {
						want = command.ErrUnfit
					}
					require.ErrorIs(t, h.choice.MayVote(address, at), want, "%v: %s at %v", all, address, at)
				}
			}
		}
	})
}

var masters = []string{"a", "b", "c"}

// history is all that the Sentinels have said, in order.
type history []said

// said is one answer of a Sentinel, or that it could not be queried.
type said struct {
	sentinel int
	master   string
	asked    clock.Instant
	failed   bool
}

// master returns the one that more than half of n Sentinels have named in time.
func (all history) master(at clock.Instant, n int) string {
	for _, m := range masters {
		if 2*all.votes(m, at, n) > n {
			return m
		}
	}
	return ""
}

// votes counts the Sentinels whose last answer is this master, and was asked for in time.
func (all history) votes(master string, at clock.Instant, n int) (count int) {
	for i := range n {
		for _, s := range slices.Backward(all) {
			if s.sentinel != i || s.failed {
				continue
			}
			if s.master != "" && s.master == master && at.Sub(s.asked) < counts4900 {
				count++
			}
			break
		}
	}
	return count
}

// mayDecide tries all that the Sentinels may name that have said nothing yet.
func (all history) mayDecide(n int) bool {
	for i := range n {
		if slices.ContainsFunc(all, func(s said) bool { return s.sentinel == i }) {
			continue
		}
		return slices.ContainsFunc(masters, func(m string) bool {
			then := append(slices.Clip(all), said{sentinel: i, master: m})
			return then.decided(n) || then.mayDecide(n)
		})
	}
	return false
}

// decided reports whether more than half of n Sentinels said one master last, and did not fail since.
func (all history) decided(n int) bool {
	return slices.ContainsFunc(masters, func(m string) bool {
		count := 0
		for i := range n {
			for _, s := range slices.Backward(all) {
				if s.sentinel == i {
					count += map[bool]int{true: 1}[s.master == m]
					break
				}
			}
		}
		return 2*count > n
	})
}

// instants returns now, and the later ones between which an answer becomes too old.
func (all history) instants(now clock.Instant) []clock.Instant {
	some := []clock.Instant{now}
	for _, s := range all {
		if end := s.asked.Add(counts4900); !s.failed && now.Before(end) {
			some = append(some, end-1, end)
		}
	}
	return some
}
