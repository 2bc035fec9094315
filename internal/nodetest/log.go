package nodetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// Names lists the commands that the master executed since ForgetLog, without the loading of scripts.
func Names(m *fakeredis.Master) []string {
	return slices.DeleteFunc(AllNames(m), func(name string) bool { return name == "SCRIPT LOAD" })
}

// AllNames is Names with the loading of scripts.
func AllNames(m *fakeredis.Master) []string {
	all := []string{}
	for _, e := range m.Log() {
		all = append(all, strings.TrimSpace(e.Name+" "+Sub(e)))
	}
	return all
}

// Quiet lists what Names does, without the health checks, which a node sends as long as it is open.
func Quiet(m *fakeredis.Master) []string {
	return slices.DeleteFunc(Names(m), func(name string) bool { return name == "INFO" })
}

// Sub returns the subcommand, or the name of the script.
func Sub(e fakeredis.Entry) string {
	switch {
	case len(e.Args) == 0:
		return ""
	case e.Name == "CLIENT" || e.Name == "SCRIPT":
		return e.Args[0]
	case e.Name == "EVALSHA" || e.Name == "EVAL":
		for _, s := range command.Scripts() {
			if e.Args[0] == s.Hash || e.Args[0] == s.Source {
				return s.Name
			}
		}
	}
	return ""
}

// Count returns how often the log has a command.
func Count(m *fakeredis.Master, name string) int {
	n := 0
	for _, have := range Names(m) {
		if have == name {
			n++
		}
	}
	return n
}

// Diary records what a listener receives.
type Diary chan string

// Subscribed records a confirmation.
func (d Diary) Subscribed(channel string) { d <- "subscribed " + channel }

// Message records a message.
func (d Diary) Message(channel, payload string) { d <- channel + ": " + payload }

// Down records that messages were lost.
func (d Diary) Down(error) { d <- "down" }

// Publish sends a message to a master on a connection of its own. It returns how many clients received it.
func Publish(t *testing.T, m *fakeredis.Master, channel, payload string) int {
	t.Helper()
	raw, err := m.Dial(context.Background(), "", "")
	require.NoError(t, err)
	c := redis.NewConn(raw, 0, 0)
	heard, err := redis.Int(c.Do("PUBLISH", channel, payload))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return heard
}

// Only is the master's one client.
func Only(t *testing.T, m *fakeredis.Master) *fakeredis.Client {
	t.Helper()
	all := m.Clients()
	require.Len(t, all, 1)
	return all[0]
}
