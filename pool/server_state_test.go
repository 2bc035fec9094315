package pool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

var changesRole = map[string]bool{"READONLY": true, "MASTERDOWN": true, "LOADING": true}

// Over the wire: a server's state passes, and leaves nothing behind.
func TestAServersStateIsReportedAndThenForgotten(t *testing.T) {
	for text, outcome := range map[string]command.Outcome{
		"OOM command not allowed when used memory > 'maxmemory'.":              command.Failed,
		"BUSY Redis is busy running a script.":                                 command.Failed,
		"READONLY You can't write against a read only replica.":                command.Failed,
		"LOADING Redis is loading the dataset in memory":                       command.Failed,
		"NOPERM No permissions to access a key":                                command.Failed,
		"ERR The user executing the script can't run this command":             command.Failed,
		"MOVED 3999 127.0.0.1:6381":                                            command.Failed,
		"ERR unknown command 'SET', with args beginning with: 'k' 'tok' 'NX' ": command.Failed,
		"ERR redlock: TTL out of bounds":                                       command.Failed,
		"WRONGTYPE Operation against a key holding the wrong kind of value":    command.Refused,
		"ERR user_script:3: attempt to compare number with nil":                command.Unknown,
		"NEWCODE something of a later version":                                 command.Unknown,
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.FailWith("*", text)
			calls := oneOfEach()
			code, _, _ := strings.Cut(text, " ")
			if changesRole[code] {
				calls = map[string]*call{"SET": calls["SET"]} // the following commands wait for a dial, or find that it fails
			}
			for _, c := range calls {
				r := c.On(n).Reply(t)
				require.Equal(t, outcome, r.Outcome, text)
				require.Empty(t, m.Keys())
			}
			m.FailWith("*", "")
			dials := int64(1)
			if changesRole[code] {
				time.Sleep(time.Second)
				dials = n.Stats().Dials // rule 15: see health_check_test.go
			}
			require.Equal(t, command.Granted, acquiring("A", time.Second, "k").Outcome(t, n), text)
			require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n), text)
			require.Equal(t, dials, n.Stats().Dials, text)
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
					r := call().On(n).Reply(t)
					require.Equal(t, command.Failed, r.Outcome, "%s: %v", cmd, r.Err)
					require.ErrorContains(t, r.Err, text)
				}
				require.Equal(t, []string{"held"}, m.Keys())
				require.InDelta(t, time.Minute, m.TTL("held"), float64(time.Second), "but for what dials take")
			})
		}
	}
}
