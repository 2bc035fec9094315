package session

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
)

const (
	healthy = "run_id:r1\r\nrole:master\r\nredis_version:7.0.15\r\nmaster_replid2:00\r\n"
	replica = "run_id:r1\r\nrole:slave\r\nredis_version:7.0.15\r\nmaster_replid2:00\r\n"
)

// stateOf returns the state at the begin of a connection whose server answers INFO so.
func stateOf(info, marker string) State {
	var f Facts
	f.ReadInfo(info, nil)
	f.Marker = marker
	return NewState("A", f, func(f command.Facts) []command.Fault { return Faults("A", 0, f) })
}

// Each row has a server, a Locker and what happens to some commands: "sent", "registered" if the Locker is asked first, or the reason
// why they are not sent.
func TestWhichCommandsAConnectionCarries(t *testing.T) {
	owned := command.Membership{Servers: command.NewServers()}
	guarded := command.Membership{Servers: command.NewServers(), Guard: guard.New(1, []string{"A"})}
	unsafe := command.Membership{Servers: command.NewServers(), Unsafe: true}
	busy, registered := func(s *State) { s.Checked(nil, redis.Error("BUSY a script runs")) }, (*State).Registered
	for what, c := range map[string]struct {
		info, marker                   string
		member                         command.Membership
		happens                        func(*State)
		acquire, extend, inspect, undo string
	}{
		"at first":                  {healthy, "", owned, nil, "registered", "registered", "registered", "sent"},
		"registered":                {healthy, "", owned, registered, "sent", "sent", "sent", "sent"},
		"without a Locker":          {healthy, "", command.Membership{}, nil, "sent", "sent", "sent", "sent"},
		"a replica":                 {replica, "", owned, nil, "is a replica", "is a replica", "is a replica", "sent"},
		"a replica of an unsafe":    {replica, "", unsafe, nil, "sent", "sent", "sent", "sent"},
		"fails its check":           {healthy, "", owned, busy, "BUSY", "registered", "BUSY", "sent"},
		"an unsafe one fails":       {healthy, "", unsafe, busy, "sent", "sent", "sent", "sent"},
		"guarded":                   {healthy, "2|x", guarded, nil, "registered", "registered", "registered", "sent"},
		"guarded, the Locker not":   {healthy, "2|x", owned, nil, "has no restart guard", "has no restart guard", "sent", "sent"},
		"guarded, nor is an unsafe": {healthy, "2|x", unsafe, nil, "sent", "sent", "sent", "sent"},
	} {
		s := stateOf(c.info, c.marker)
		if c.happens != nil {
			c.happens(&s)
		}
		for _, try := range []struct {
			request command.Request
			want    string
		}{
			{command.Request{Op: command.Acquire}, c.acquire},
			{command.Request{Op: command.Extend}, c.extend},
			{command.Request{Op: command.Inspect, Informational: true}, c.inspect},
			{command.Request{Op: command.Release}, c.undo},
			{command.Request{Op: command.Sweep}, c.undo},
			{command.Request{Op: command.Info}, "sent"},
		} {
			if Exempt(try.request.Op) {
				require.Equal(t, "sent", try.want, "%s: %v", what, try.request.Op)
				continue
			}
			register, err := s.Admit(&command.Command{Request: &try.request}, &c.member)
			switch try.want {
			case "sent", "registered":
				require.NoError(t, err, what)
				require.Equal(t, try.want == "registered", register, "%s: %v", what, try.request.Op)
			default:
				require.ErrorContains(t, err, try.want, what)
			}
		}
	}
}

// Each row has a server's replies to INFO at the begin and at a check.
func TestWhatAHealthCheckFinds(t *testing.T) {
	for what, c := range map[string]struct {
		before, now     string
		err             error
		outdated, sound bool
	}{
		"nothing new":         {healthy, healthy, nil, false, true},
		"another policy":      {healthy, healthy + "maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n", nil, false, false},
		"another run":         {healthy, "run_id:r2\r\nrole:master\r\nmaster_replid2:00\r\n", nil, true, true},
		"another history":     {healthy, "run_id:r1\r\nrole:master\r\nmaster_replid2:11\r\n", nil, true, true},
		"it became a replica": {healthy, replica, nil, true, true},
		"it is one still":     {replica, replica, nil, false, false},
		"it became a master":  {replica, healthy, nil, true, false},
		"a right was removed": {healthy, "", redis.Error("NOPERM no right"), false, false},
		"a script runs":       {healthy, "", redis.Error("BUSY a script runs"), false, false},
		"no run ID":           {healthy, "role:master\r\n", nil, true, true},
	} {
		s := stateOf(c.before, "")
		require.Equal(t, c.outdated, s.Checked(c.now, c.err), what)
		require.Equal(t, c.sound, s.Sound(), what)
		require.Equal(t, what == "a script runs", s.Failing(), what)
		if !c.outdated {
			require.False(t, s.Checked(c.before, nil), what)
			require.Equal(t, c.before == healthy, s.Sound(), "%s, and then no longer", what)
		}
	}
}

// An error may say that a server is no longer a master. A replica says so each time.
func TestWhichErrorsShowAnotherRole(t *testing.T) {
	master, slave := stateOf(healthy, ""), stateOf(replica, "")
	for text, c := range map[string]struct{ of, ofReplica bool }{
		"READONLY You can't write": {true, false},
		"MASTERDOWN Link is down":  {true, false},
		"LOADING Redis is loading": {true, true},
		"BUSY a script runs":       {false, false},
		"ERR unknown command":      {false, false},
	} {
		require.Equal(t, c.of, master.RoleChanged(redis.Error(text)), text)
		require.Equal(t, c.ofReplica, slave.RoleChanged(redis.Error(text)), text)
	}
	require.False(t, master.RoleChanged(errors.New("closed")))
}

// A replica that accepts writes is another fault than one that does not, and a master says the same of itself.
func TestAWritableReplicaSaysSo(t *testing.T) {
	for info, writable := range map[string]bool{
		"run_id:r\r\nrole:slave\r\nslave_read_only:0\r\n":  true,
		"run_id:r\r\nrole:slave\r\nslave_read_only:1\r\n":  false,
		"run_id:r\r\nrole:master\r\nslave_read_only:0\r\n": false,
	} {
		var f Facts
		f.ReadInfo(info, nil)
		require.Equal(t, writable, f.Writable, info)
	}
}

// The text has the setting to use, if the marker can be read.
func TestAGuardedNodeNamesItsLongestTTL(t *testing.T) {
	marker := guard.New(time.Minute, []string{"A"}).Marker("r1", "00", "A")
	require.ErrorContains(t, GuardedNode("A", marker), "with a maxTTL of 1m0s")
	require.NotContains(t, GuardedNode("A", "2|x").Error(), "maxTTL")
}

// What a server is sent follows from its last facts, its last health check and the Locker alone. The slow model keeps all that happened,
// and looks for the last of each.
func FuzzState(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 16, 33})
	infos := []string{healthy, replica, healthy + "maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n", "nonsense", "run_id:r2\r\nrole:master\r\nredis_version:7.0.15\r\n"}
	members := []command.Membership{
		{},
		{Servers: command.NewServers()},
		{Servers: command.NewServers(), Unsafe: true},
		{Servers: command.NewServers(), Guard: guard.New(1, []string{"A"})},
	}
	f.Fuzz(func(t *testing.T, events []byte) {
		if len(events) == 0 {
			return
		}
		marker := []string{"", "2|x"}[events[0]%2]
		s := stateOf(healthy, marker)
		info, failed, registered := healthy, false, false
		for _, b := range events[:min(len(events), 60)] {
			switch n := int(b / 8); b % 8 {
			case 0:
				s.Checked(nil, redis.Error("BUSY x"))
				failed = true
			case 1, 2:
				next := infos[n%len(infos)]
				was, is := stateOf(info, marker), stateOf(next, marker)
				other := is.Facts().Unread == "" && !is.Facts().SameServer(was.Facts().Facts)
				require.Equal(t, other, s.Checked([]byte(next), nil))
				if other {
					return // the connection ends
				}
				info, failed = next, false
			case 3:
				s.Registered()
				registered = true
			default:
				m := members[n%len(members)]
				c := &command.Command{Request: &command.Request{Op: []command.Op{command.Acquire, command.Extend, command.Inspect}[n/4%3]}}
				c.Informational = c.Op == command.Inspect
				asks, err := s.Admit(c, &m)
				fresh := stateOf(info, marker)
				bad := fresh.Unfit() || failed && c.Op != command.Extend || m.Servers != nil && m.Guard == nil && marker != "" && !c.Informational
				require.Equal(t, bad && !m.Unsafe, err != nil, "%v", err)
				require.Equal(t, !bad && !m.Unsafe && m.Servers != nil && !registered && (m.Guard != nil || marker == ""), asks)
			}
			require.Equal(t, registered, s.RunID() != "")
			require.Equal(t, failed, s.Failing())
		}
	})
}
