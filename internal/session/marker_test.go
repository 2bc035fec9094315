package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// The node A has a quarantine of 60 s. Its servers are called r1 and r2.
const quarantine = 60 * time.Second

var settings = guard.New(quarantine, []string{"A", "B", "C"})

func facts(server string) *Facts {
	return &Facts{Facts: command.Facts{RunID: server, ReplID2: "00", Role: "master"}}
}

// owner does what a connection's reader and writer do with the Marker.
type owner struct {
	Marker
	now   clock.Instant
	facts *Facts
	asks  string // what was asked: "m" if the quarantine may not end yet, "M" if it may
	waits bool   // the last reply that found another marker waits
	ends  bool   // the connection has to end
}

// does handles an event: see the table below.
func (o *owner) does(t *testing.T, event string) {
	t.Helper()
	var arg string
	var d time.Duration
	_, _ = fmt.Sscan(event, &event, &arg)
	if event == "passes" || event == "quarantined" || event == "began" {
		var err error
		d, err = time.ParseDuration(arg)
		require.NoError(t, err)
	}
	answer := func(a guard.MarkerStatus) { o.ends = o.Answered(&a, o.now) }
	expected, _ := o.Expected().(string)
	switch event {
	case "connects":
		o.facts, o.ends, o.waits = facts(arg), false, false
		o.Connected()
	case "acquires":
		o.identify()
		if o.Precedes(command.Acquire) {
			o.ask()
		}
	case "marked":
		answer(guard.MarkerStatus{Status: guard.Marked, Marker: expected})
	case "other": // it has the marker of another server
		answer(guard.MarkerStatus{Status: guard.Marked, Marker: settings.Marker("r9", "00", "A")})
	case "foreign":
		answer(guard.MarkerStatus{Status: guard.Foreign, Marker: "x"})
	case "replica":
		answer(guard.MarkerStatus{Status: guard.NoMaster})
	case "quarantined", "began":
		answer(guard.MarkerStatus{Status: guard.Quarantined, Left: d, JustBegan: event == "began"})
	case "fails":
		o.Failed(errors.New("no answer"))
	case "unmarked":
		o.waits = o.Unmarked()
	case "checked":
		if o.Asked() {
			o.Want()
		}
	case "passes":
		end := o.now.Add(d)
		if due := o.Due(); due != 0 && due <= end {
			o.now = due
			o.Tick()
			o.askIfWanted()
		}
		o.now = end
	default:
		require.Fail(t, event)
	}
	o.askIfWanted()
}

func (o *owner) askIfWanted() {
	if o.Wanted() {
		o.identify()
		o.ask()
	}
}

func (o *owner) identify() {
	if o.Expected() == nil {
		o.Identify(settings, "A", false, o.facts, o.now)
	}
}

func (o *owner) ask() {
	if o.Ask(o.now) {
		o.asks += "M"
	} else {
		o.asks += "m"
	}
}

// says returns why the server does not vote; "" if it does, or if that is not known.
func (o *owner) says() string {
	if !o.NotVoting() {
		return ""
	}
	if left, ok := o.Quarantine(o.now); ok {
		return left.String()
	}
	return o.Why().Error()
}

// Each row has what happens, what was asked meanwhile, and what is known then. M stands for a VerifyMarker that may end a quarantine,
// m for one that may not.
func TestWhatBecomesOfAMarker(t *testing.T) {
	for _, c := range []struct {
		events, asks, says string
		waits, ends        bool
	}{
		{"connects r1", "", "", false, false},
		{"connects r1, checked", "", "", false, false}, // no lock was acquired yet
		{"connects r1, acquires", "M", "", false, false},
		{"connects r1, acquires, acquires", "M", "", false, false},
		{"connects r1, acquires, marked", "M", "", false, false},
		{"connects r1, acquires, marked, acquires", "M", "", false, false},
		{"connects r1, acquires, fails, acquires", "MM", "", false, false},
		{"connects r1, acquires, marked, checked", "MM", "", false, false},
		{"connects r1, acquires, checked", "M", "", false, false}, // one is under way
		{"connects r1, acquires, unmarked", "M", "", true, false},
		{"connects r1, acquires, marked, unmarked", "MM", "", true, false}, // it was emptied
		{"connects r1, acquires, marked, unmarked, unmarked", "MM", "", true, false},
		{"connects r1, acquires, quarantined 9s, unmarked", "M", "9s", false, false},
		{"connects r1, acquires, quarantined 9s, passes 4s", "M", "5s", false, false},
		{"connects r1, acquires, quarantined 9s, passes 10s", "MM", "", false, false},
		{"connects r1, acquires, quarantined 0s, quarantined 0s, passes 10ms", "M", "0s", false, false}, // it is not asked at once
		{"connects r1, acquires, quarantined 1000h, passes 1s", "M", "59s", false, false},
		// What this client saw begin is measured by its own clock, too.
		{"connects r1, acquires, began 60s, passes 1s, checked, quarantined 0s", "Mm", "59s", false, false},
		{"connects r1, acquires, began 60s, passes 1s, connects r1, quarantined 0s", "Mm", "59s", false, false},
		{"connects r1, acquires, began 60s, passes 61s, marked", "MM", "", false, false},
		{"connects r1, acquires, marked, connects r2", "Mm", "", false, false},
		{"connects r1, acquires, marked, connects r2, passes 10s, quarantined 0s", "Mm", "50s", false, false},
		{"connects r1, acquires, marked, passes 10s, connects r1", "MM", "", false, false},
		{"connects r1, acquires, foreign", "M", "foreign", false, false},
		{"connects r1, acquires, foreign, checked, marked", "MM", "", false, false},
		{"connects r1, acquires, replica", "M", "", false, true},
		{"connects r1, acquires, other", "M", "", false, true},
		{"connects r1, acquires, other, connects r1", "MM", "", false, false},
	} {
		o := &owner{now: clock.Instant(time.Hour)}
		for event := range strings.SplitSeq(c.events, ", ") {
			o.does(t, event)
		}
		require.Equal(t, c.asks, o.asks, c.events)
		require.Equal(t, c.waits, o.waits, c.events)
		require.Equal(t, c.ends, o.ends, c.events)
		if says := o.says(); c.says == "foreign" {
			require.Contains(t, says, "it is no marker of this version's restart guard", c.events)
		} else {
			require.Equal(t, c.says, says, c.events)
		}
	}
}

// A VerifyMarker precedes what makes a key or counts one, and no more once it was made.
func TestWhatAVerifyMarkerPrecedes(t *testing.T) {
	var m Marker
	m.Connected()
	for op, precedes := range map[command.Op]bool{
		command.Acquire: true, command.Inspect: true, command.Extend: false, command.Release: false, command.Poll: false,
	} {
		require.Equal(t, precedes, m.Precedes(op), op)
	}
	m.Identify(settings, "A", false, facts("r1"), 1)
	m.Ask(1)
	require.False(t, m.Precedes(command.Acquire))
	require.False(t, m.Precedes(command.Inspect))
}

// Whatever happens: at most one VerifyMarker is under way, a key is created behind one, a server votes only after its marker was the
// expected one, and no quarantine that this client saw begin may end before its time.
func FuzzMarker(f *testing.F) {
	all := []string{
		"connects r1", "connects r2", "acquires", "marked", "other", "foreign", "replica", "quarantined 9s", "began 60s", "fails", "unmarked",
		"checked", "passes 1s", "passes 30s", "passes 70s",
	}
	answers := []string{"marked", "other", "foreign", "replica", "quarantined 9s", "began 60s", "fails"}
	f.Add([]byte{0, 2, 3, 10, 8, 12, 1, 7, 14})
	f.Fuzz(func(t *testing.T, events []byte) {
		o := &owner{now: clock.Instant(time.Hour)}
		o.does(t, all[0])
		server, underWay, last := "r1", false, ""
		var began []clock.Instant
		identified := "" // the server of the latest connection on which the guard was used
		for _, b := range events[:min(len(events), 100)] {
			event := all[int(b)%len(all)]
			if o.ends && !strings.HasPrefix(event, "connects") || slices.Contains(answers, event) && !underWay {
				continue // the connection has ended; there is nothing to answer
			}
			asked := len(o.asks)
			switch {
			case slices.Contains(answers, event):
				underWay, last = false, event
			case strings.HasPrefix(event, "connects"):
				server, underWay, last = strings.Fields(event)[1], false, ""
			}
			o.does(t, event)
			if o.Expected() != nil && identified != server {
				if identified != "" {
					began = append(began, o.now)
				}
				identified = server
			}
			if event == "began 60s" && !o.ends {
				began = append(began, o.now)
			}
			for _, a := range o.asks[asked:] {
				require.False(t, underWay, "a second one is under way: %v", event)
				underWay, last = true, ""
				over := true
				for _, at := range began {
					over = over && o.now.Sub(at) >= quarantine
				}
				require.Equal(t, over, a == 'M', "after %v", event)
			}
			if event == "acquires" && !o.ends {
				require.True(t, underWay || last != "" && last != "fails", "a key is created without an answer, and none is due")
			}
			refused := !underWay && (last == "foreign" || last == "quarantined 9s" || last == "began 60s" || last == "replica" && !o.ends)
			require.Equal(t, refused, o.NotVoting(), "after %v: %q", event, last)
		}
	})
}
