package undo

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

const ttl = 10 * time.Second

// of returns the arguments of a lock.
func of(token string, names ...string) *command.LockArgs {
	t := &command.LockArgs{}
	t.Set(names, token)
	return t
}

// acquiring returns an acquire of names by a token.
func acquiring(token string, names ...string) *command.Command {
	r := &command.Request{}
	command.NewAcquire(r, of(token, names...), ttl, time.Hour)
	return &command.Command{Request: r}
}

// undoing returns its undo. With a minimum hold the keys stay for so long.
func undoing(token string, hold time.Duration) *command.Command {
	r := &command.Request{}
	if command.NewRelease(r, of(token, "k")); hold > 0 {
		command.NewShorten(r, of(token, "k"), hold, time.Hour)
	}
	return &command.Command{Request: r}
}

// swept returns the keys and tokens of a sweep, "k A", one for each key.
func swept(r *command.Command) (all []string) {
	if r == nil {
		return nil
	}
	_, args := r.AppendCall(nil, true)
	args = args[len(args)-2*len(r.Keys):]
	for i, key := range r.Keys {
		all = append(all, key+" "+args[len(r.Keys)+i].(string)) //nolint:forcetypeassert // tokens are strings
	}
	return all
}

// Each row has what happens, and what a sweep then has. "A" loses an acquire of A on the connection 1, "A2" on the connection 2; "-A" is
// its undo, "~A" one that leaves the keys for 3 s; "up" is a connection on which all earlier ones were ended, "up!" one on which none could be;
// "+9s" passes.
func TestWhatIsSwept(t *testing.T) {
	for events, want := range map[string]string{
		"A":                     "", // its undo comes later
		"-A":                    "",
		"A -A":                  "k A",
		"A up -A":               "", // it will not be executed any more
		"A up! -A":              "k A",
		"A up! -A +19s":         "k A",
		"A up! -A +20s":         "",    // all that it may have made has expired
		"A -A +1h":              "k A", // it may wait on the connection for ever
		"A -A +1h up! +19s":     "k A",
		"A -A +1h up! +20s":     "",
		"A up! -A +15s up! +4s": "k A", // a later connection does not postpone the end
		"A up! -A +15s up! +5s": "",
		"A up! -A +1s up +9s":   "k A", // what it made before is swept for two rounds more
		"A up! -A +1s up +10s":  "",
		"A ~A +2s":              "",
		"A ~A +3s":              "k A",
		"A B -A":                "k A",
		"A B -A -B":             "k A,k B",
		"A B2 up! -A -B":        "k A,k B",
	} {
		var l Late
		now := clock.Instant(time.Hour)
		for event := range strings.FieldsSeq(events) {
			switch {
			case event == "up":
				l.Connected(nil, now)
			case event == "up!":
				end, left := l.ToEnd("r")
				require.Empty(t, left, events)
				l.Connected(end, now)
			case event[0] == '+':
				d, err := time.ParseDuration(event[1:])
				require.NoError(t, err)
				now = now.Add(d)
			case event[0] == '-':
				l.Undone(undoing(event[1:], 0), now)
			case event[0] == '~':
				l.Undone(undoing(event[1:], 3*time.Second), now)
			default:
				id, _ := strconv.ParseInt("0"+event[1:], 10, 64)
				require.True(t, l.Lost(acquiring(event[:1], "k"), Conn{max(1, id), "r"}))
			}
		}
		require.Equal(t, want, strings.Join(swept(l.Sweep(now, true)), ","), events)
	}
}

// Each row has a lost connection and the run of the server now.
func TestWhichConnectionsHaveToBeEnded(t *testing.T) {
	for _, c := range []struct {
		on         Conn
		run        string
		ends, left bool
	}{
		{Conn{1, "r"}, "r", true, false},
		{Conn{1, "r"}, "s", false, false}, // it ended with its process
		{Conn{1, "r"}, "", false, true},
		{Conn{1, ""}, "r", false, true},
		{Conn{0, "r"}, "r", false, true}, // before Redis 5 there are no IDs, or they are denied
	} {
		var l Late
		require.True(t, l.Lost(acquiring("A", "k"), c.on))
		end, left := l.ToEnd(c.run)
		require.Equal(t, c.ends, len(end) == 1, "%v %q", c.on, c.run)
		require.Equal(t, c.left, len(left) == 1, "%v %q", c.on, c.run)
	}
}

// Each is swept in its turn: none again before all others were.
func TestEachIsSweptInItsTurn(t *testing.T) {
	var l Late
	now := clock.Instant(time.Hour)
	for i := range 2*MaxSwept + 500 {
		token := strconv.Itoa(i)
		require.True(t, l.Lost(acquiring(token, "k"), Conn{1, "r"}))
		l.Undone(undoing(token, 0), now)
	}
	seen := make(map[string]int)
	for range 5 {
		all := swept(l.Sweep(now, true))
		require.Len(t, all, MaxSwept)
		for _, s := range all {
			seen[s]++
		}
	}
	for s, n := range seen {
		require.Equal(t, 2, n, s)
	}
	require.Len(t, seen, 2*MaxSwept+500)
}

// Where a call may have the keys of one lock only, a sweep has those of one name.
func TestASweepOfOneName(t *testing.T) {
	var l Late
	for _, token := range []string{"A", "B", "C"} {
		name := map[string]string{"A": "a", "B": "b", "C": "a"}[token]
		require.True(t, l.Lost(acquiring(token, name), Conn{1, "r"}))
		l.Undone(undoing(token, 0), 1)
	}
	first, second := swept(l.Sweep(1, false)), swept(l.Sweep(1, false))
	require.Equal(t, []string{"a A", "a C"}, first)
	require.Equal(t, []string{"b B"}, second)
}

// The next sweep comes a pause after the first undo, and when its owner says.
func TestWhenASweepIsDue(t *testing.T) {
	var l Late
	require.Zero(t, l.Due())
	require.True(t, l.Lost(acquiring("A", "k"), Conn{1, "r"}))
	require.True(t, l.Lost(acquiring("B", "k"), Conn{1, "r"}))
	require.Zero(t, l.Due())
	now := clock.Instant(time.Hour)
	l.Undone(undoing("A", 0), now)
	require.Equal(t, now.Add(SweepPause), l.Due())
	l.Undone(undoing("B", 0), now.Add(time.Millisecond))
	require.Equal(t, now.Add(SweepPause), l.Due())
	l.Wait(now.Add(time.Second))
	require.Equal(t, now.Add(time.Second), l.Due())
	l.Clear()
	require.Zero(t, l.Due())
	require.False(t, l.Some())
}

func TestAcquiresAreBounded(t *testing.T) {
	var l Late
	for i := range MaxLate {
		require.True(t, l.Lost(acquiring(strconv.Itoa(i), "k"), Conn{1, "r"}))
	}
	require.False(t, l.Lost(acquiring("one more", "k"), Conn{1, "r"}))
}

// Connections that end again and again leave nothing behind of acquires that have expired.
func TestWhatIsKnownOfLostConnectionsIsBounded(t *testing.T) {
	var l Late
	now := clock.Instant(time.Hour)
	for i := range 10 * MaxConns {
		token := strconv.Itoa(i)
		l.Prune(now)
		require.True(t, l.Lost(acquiring(token, "k"), Conn{int64(i + 1), "r"}))
		end, left := l.ToEnd("r")
		l.Connected(slices.Concat(end, left), now)
		l.Undone(undoing(token, 0), now)
		now = now.Add(ttl)
	}
	require.LessOrEqual(t, len(l.tokens), 3)
	require.LessOrEqual(t, len(l.undone), 3)
	require.LessOrEqual(t, len(l.conns), MaxConns)
}

// The last connection that may be ended stays one however many of its acquires are unanswered.
func TestSeveralAcquiresOfOneLostConnectionAreOneConnection(t *testing.T) {
	var l Late
	lost := func(id int64, token string) { require.True(t, l.Lost(acquiring(token, "k"), Conn{id, "r"})) }
	for i := range int64(MaxConns - 1) {
		lost(i+1, "first/"+strconv.FormatInt(i, 10))
	}
	lost(MaxConns-1, "second")
	require.NotContains(t, l.conns, Conn{}, "all of them can be ended")
	lost(MaxConns, "of another connection")
	require.Contains(t, l.conns, Conn{})
	require.Len(t, l.conns, MaxConns)
}

// An acquire that may still be executed, and whose undo was answered, is swept; no other one is. The slow model asks all that has happened.
func FuzzLate(f *testing.F) {
	f.Add([]byte{0, 16, 3, 5, 7, 1, 3})
	f.Fuzz(func(t *testing.T, events []byte) {
		type one struct {
			until, from clock.Instant
			undone      bool
		}
		var l Late
		now := clock.Instant(time.Hour)
		model := make(map[string]*one)
		for i, b := range events[:min(len(events), 60)] {
			token, n := "T"+strconv.Itoa(int(b/8)%8), 0
			switch b % 8 {
			case 0:
				if token += "/" + strconv.Itoa(i); l.Lost(acquiring(token, "k"), Conn{int64(b/64) + 1, "r"}) {
					model[token] = &one{until: noDeadline}
				}
			case 1, 2: // the undo of one of them, chosen by its order
				var all []string
				for token := range model {
					all = append(all, token)
				}
				if slices.Sort(all); len(all) == 0 {
					continue
				}
				token = all[int(b/8)%len(all)]
				hold := time.Duration(b%8-1) * 3 * time.Second
				l.Undone(undoing(token, hold), now)
				if o := model[token]; !o.undone {
					o.undone, o.from = true, now.Add(hold)
				}
			case 3: // none could be ended
				end, left := l.ToEnd("r")
				require.Empty(t, left)
				if l.Connected(end, now); len(end) == 0 {
					continue
				}
				for _, o := range model {
					if o.until == noDeadline {
						o.until = now.Add(2 * ttl)
					}
				}
			case 4: // all were ended
				for _, o := range model {
					n += map[bool]int{true: 1}[o.undone && now.Before(o.until)]
				}
				l.Connected(nil, now)
				for token, o := range model {
					if o.until == noDeadline {
						o.until = now.Add(2 * ttl)
					}
					if !o.undone {
						delete(model, token)
					}
					o.until = min(o.until, max(now, o.from).Add(2*max(SweepRound, time.Duration(n)*SweepPause)))
				}
			case 5, 6:
				now = now.Add(time.Duration(b) * 100 * time.Millisecond)
			case 7:
				l.Prune(now)
			}
			var want []string
			for token, o := range model {
				if !now.Before(o.until) {
					delete(model, token)
				} else if o.undone && !now.Before(o.from) {
					want = append(want, "k "+token)
				}
			}
			require.ElementsMatch(t, want, swept(l.Sweep(now, true)))
		}
	})
}

// A Close, or a Cluster that retires the server, comes between ToEnd and its answers.
func TestWhatWasClearedMeanwhileStaysCleared(t *testing.T) {
	var l Late
	require.True(t, l.Lost(acquiring("A", "k"), Conn{ClientID: 1, RunID: "run"}))
	end, _ := l.ToEnd("run")
	require.Len(t, end, 1)
	l.Clear()
	l.Connected(end, clock.Instant(time.Second))
	require.False(t, l.Some())
	require.Zero(t, l.Due())
}

// The sweeps of a master that another one follows. The keys of a minimum hold stay until they expire.
func TestNoMinimumHoldIsSweptBeforeItsEnd(t *testing.T) {
	var l Late
	now := clock.Instant(time.Hour)
	for _, token := range []string{"A", "B"} {
		require.True(t, l.Lost(acquiring(token, "k"), Conn{1, "r"}))
	}
	l.Undone(undoing("A", 0), now)
	l.Undone(undoing("B", 3*time.Second), now)
	each := func(now clock.Instant) (all []string) {
		for _, c := range l.SweepEach(now) {
			all = append(all, swept(c)...)
		}
		return all
	}
	require.Equal(t, []string{"k A"}, each(now.Add(3*time.Second-1)))
	require.Equal(t, []string{"k A", "k B"}, each(now.Add(3*time.Second)))
}

// An acquire that there is no room for may be executed late as well.
func TestAConnectionIsEndedAlsoIfThereIsNoRoomForItsAcquires(t *testing.T) {
	var l Late
	for i := range MaxLate {
		require.True(t, l.Lost(acquiring(strconv.Itoa(i), "k"), Conn{1, "r"}))
	}
	require.False(t, l.Lost(acquiring("beyond", "k"), Conn{2, "r"}))
	end, left := l.ToEnd("r")
	require.ElementsMatch(t, []Conn{{1, "r"}, {2, "r"}}, end)
	require.Empty(t, left)
}
