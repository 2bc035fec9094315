package undo

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// parking returns an undo that ends at an instant.
func parking(token string, notAfter clock.Instant) *command.Command {
	c := undoing(token, 0)
	c.NotAfter = notAfter
	return c
}

// tokensOf returns the tokens of commands.
func tokensOf(all []*command.Command) string {
	var tokens []string
	for _, c := range all {
		tokens = append(tokens, c.Token())
	}
	return strings.Join(tokens, "")
}

// The oldest is sent first, and one that fails again goes to the back.
func TestParkedUndosAreSentInTheirTurn(t *testing.T) {
	var p Parked
	require.True(t, p.Add(parking("A", noDeadline), false))
	require.False(t, p.Add(parking("B", noDeadline), false))
	require.False(t, p.Add(parking("C", noDeadline), false))
	require.Equal(t, "A", tokensOf(p.Take(1)))
	p.Add(parking("A", noDeadline), false)
	require.Equal(t, "BC", tokensOf(p.Take(2)))
	require.Empty(t, p.Take(0))
	require.Empty(t, p.Take(-1))
	require.Equal(t, "A", tokensOf(p.Take(9)))
	require.Zero(t, p.Len())
	require.True(t, p.Add(parking("D", noDeadline), false))
}

// An undo is sent again as another command, which remembers how often, and whether an earlier sending may have been executed.
func TestAParkedUndoIsAnotherCommand(t *testing.T) {
	var p Parked
	c := parking("A", noDeadline)
	c.Retries, c.Node = 3, 2
	c.SetAsking(true)
	p.Add(c, false)
	p.Add(c, true)
	again := p.Take(2)
	for i, perhaps := range []bool{false, true} {
		require.Equal(t, uint8(4), again[i].Retries)
		require.Equal(t, uint8(2), again[i].Node)
		require.True(t, again[i].Asking())
		require.Equal(t, perhaps, again[i].WasResent())
	}
	c.Retries = 255
	p.Add(c, false)
	require.Equal(t, uint8(255), p.Take(1)[0].Retries)
}

func TestThePausesBetweenProbesGrow(t *testing.T) {
	var p Parked
	var all []time.Duration
	p.Add(parking("A", noDeadline), false)
	for range 20 {
		all = append(all, p.Pause())
		p.Probed(0)
	}
	ms := time.Millisecond
	require.Equal(t, []time.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second}, all[:8])
	require.Equal(t, MaxProbePause, p.Pause())
	p.Soon()
	require.Equal(t, 20*ms, p.Pause())

	p.Probed(0)
	p.Take(1)
	c := parking("A", noDeadline)
	c.Retries = 1
	require.True(t, p.Add(c, false))
	require.Equal(t, 40*ms, p.Pause(), "it has failed before")
	p.Take(1)
	require.True(t, p.Add(parking("B", noDeadline), false))
	require.Equal(t, 20*ms, p.Pause(), "it has not")
}

func TestUndosEndWithTheirTime(t *testing.T) {
	var p Parked
	for i, token := range []string{"A", "B", "C", "D"} {
		p.Add(parking(token, clock.Instant(10-i%2)), false)
	}
	require.Empty(t, p.Probed(8))
	require.Equal(t, "BD", tokensOf(p.Probed(9)))
	require.Equal(t, "C", tokensOf(p.RemoveIf(func(c *command.Command) bool { return c.Token() == "C" })))
	require.Equal(t, "A", tokensOf(p.Take(9)))
}

// Each row has a command that executed nothing, and whether its undo has nothing to undo.
func TestWhichUndosHaveNothingToUndo(t *testing.T) {
	for what, c := range map[string]struct {
		change  func(acquire, undo *command.Command)
		nothing bool
	}{
		"an acquire":                   {func(*command.Command, *command.Command) {}, true},
		"another one":                  {func(_, undo *command.Command) { *undo.Request = *undoing("B", 0).Request; undo.AcquiredHere = true }, false},
		"sent by its text":             {func(acquire, _ *command.Command) { acquire.MarkSent(); acquire.UnmarkForEval() }, false},
		"redirected":                   {func(acquire, _ *command.Command) { acquire.Redirects = 1 }, false},
		"an extension":                 {func(acquire, _ *command.Command) { acquire.Op = command.Extend }, false},
		"the token may be in two keys": {func(_, undo *command.Command) { undo.AcquiredHere = false }, false},
	} {
		var n Nothing
		acquire, undo := acquiring("A", "k"), undoing("A", 0)
		undo.AcquiredHere = true
		c.change(acquire, undo)
		n.Failed(acquire, 1)
		require.Equal(t, c.nothing, n.Undone(undo), what)
		require.False(t, n.Undone(undo), "%s: it has one undo", what)
	}
	var n Nothing
	n.Failed(acquiring("A", "k"), 1)
	n.Forget(clock.Instant(1).Add(2*ttl - 1))
	require.Len(t, n.tokens, 1)
	n.Forget(clock.Instant(1).Add(2 * ttl))
	require.Empty(t, n.tokens)
	for i := range MaxParked + 1 {
		n.Failed(acquiring(strconv.Itoa(i), "k"), 1)
	}
	require.Len(t, n.tokens, MaxParked)
}

// The oldest are sent first, none is lost or sent twice, and the pause doubles until an undo was executed. The slow model is a list.
func FuzzParked(f *testing.F) {
	f.Add([]byte{0, 8, 1, 16, 2, 3, 0, 1, 4})
	f.Fuzz(func(t *testing.T, events []byte) {
		type one struct {
			token string
			until clock.Instant
		}
		var p Parked
		var model []one
		pause, now := minProbePause, clock.Instant(time.Hour)
		expect := func(want []one, got []*command.Command) {
			t.Helper()
			var tokens []string
			for _, o := range want {
				tokens = append(tokens, o.token)
			}
			require.Equal(t, strings.Join(tokens, ""), tokensOf(got))
		}
		for i, b := range events[:min(len(events), 100)] {
			n := int(b / 8)
			switch b % 8 {
			case 0, 1, 2: // the third kind has failed before
				o := one{"/" + strconv.Itoa(i), now.Add(time.Duration(n) * time.Second)}
				c := parking(o.token, o.until)
				c.Retries = b % 8 / 2
				require.Equal(t, len(model) == 0, p.Add(c, false))
				if len(model) == 0 && c.Retries == 0 {
					pause = minProbePause
				}
				model = append(model, o)
			case 3, 4:
				most := min(n%4, len(model))
				expect(model[:most], p.Take(n%4))
				model = model[most:]
			case 5:
				now = now.Add(time.Duration(n) * time.Second)
				var late, kept []one
				for _, o := range model {
					if now.Before(o.until) {
						kept = append(kept, o)
					} else {
						late = append(late, o)
					}
				}
				expect(late, p.Probed(now))
				model, pause = kept, min(2*pause, MaxProbePause)
			case 6:
				p.Soon()
				pause = minProbePause
			case 7:
				third := func(token string) bool { return len(token)%3 == n%3 }
				var removed, kept []one
				for _, o := range model {
					if third(o.token) {
						removed = append(removed, o)
					} else {
						kept = append(kept, o)
					}
				}
				expect(removed, p.RemoveIf(func(c *command.Command) bool { return third(c.Token()) }))
				model = kept
			}
			require.Equal(t, len(model), p.Len())
			require.Equal(t, pause, p.Pause())
		}
		expect(model, p.Take(len(model)))
	})
}

// An undo has nothing to undo if its acquire failed, was neither sent by its text nor redirected, and made no key elsewhere. The slow
// model asks all that has happened.
func FuzzNothing(f *testing.F) {
	f.Add([]byte{0, 8, 1, 2, 9, 3})
	f.Fuzz(func(t *testing.T, events []byte) {
		var n Nothing
		now := clock.Instant(time.Hour)
		failed := make(map[string]clock.Instant) // until when it is known
		for _, b := range events[:min(len(events), 100)] {
			token := "T" + strconv.Itoa(int(b/16))
			switch c := acquiring(token, "k"); b % 8 {
			case 0, 1:
				if c.Redirects = b % 8; c.Redirects == 0 {
					failed[token] = now.Add(2 * ttl)
				}
				n.Failed(c, now)
			case 2, 3: // an undo of a lock that was repaired, or resumed
				undo := undoing(token, 0)
				undo.AcquiredHere = b%8 == 2
				until, known := failed[token]
				got := n.Undone(undo)
				if !known || now.Before(until) { // it may be forgotten before Forget is called, and later
					require.Equal(t, known && undo.AcquiredHere, got)
				}
				delete(failed, token)
			case 4, 5:
				now = now.Add(time.Duration(b) * 100 * time.Millisecond)
			case 6:
				n.Failed(undoing(token, 0), now) // is no acquire
			case 7:
				n.Forget(now)
				for token, until := range failed {
					if !now.Before(until) {
						delete(failed, token)
					}
				}
			}
		}
	})
}
