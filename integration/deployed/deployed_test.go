package deployed

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// report is what redlock doctor --json prints.
type report struct {
	OK    bool
	State string
	Nodes []struct {
		Node, Guard string
		Findings    []finding
	}
	Findings []finding
}

type finding struct{ Grade, Code, Text string }

// status is a line of redlock status --watch --json.
type status struct {
	At        time.Time
	State, ID string
	Nodes     []struct {
		Node, Error string
		Held        bool
	}
}

// isContent requires a doctor that finds nothing, not even a note. A node that answers too late is a finding: the
// diagnosis is repeated then.
func (f *fleet) isContent(t *testing.T, args ...string) report {
	t.Helper()
	var code int
	var out, errs string
	await(t, "all nodes answer the doctor in time", func() bool {
		code, out, errs = f.run(t, described(t, "base/clients/doctor.yaml", "Job"), "redlock-doctor",
			append(args, "--json")...).Wait(t)
		return !strings.Contains(out, "no answer within")
	})
	require.Zero(t, code, "%s%s", out, errs)
	r := decoded[report](t, out)
	assert.True(t, r.OK)
	assert.Equal(t, "ok", r.State)
	assert.Empty(t, r.Findings)
	for i, n := range r.Nodes {
		assert.Equal(t, letters[i], n.Node)
		assert.Empty(t, n.Findings, n.Node)
	}
	return r
}

// statuses returns what a watching client has printed so far.
func statuses(t *testing.T, p *redistest.Program) (all []status) {
	t.Helper()
	out, _ := p.Logs(t)
	for line := range strings.Lines(out) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		all = append(all, decoded[status](t, line))
	}
	return all
}

// served runs a client again while no majority answers it in time because the machine stopped.
func served(t *testing.T, start func() *redistest.Program) (code int, out, errs string) {
	t.Helper()
	await(t, "a majority answers", func() bool {
		if code, out, errs = start().Wait(t); code != 69 {
			return true
		}
		require.Regexp(t, "no answer within|not sent in time", errs)
		return false
	})
	return code, out, errs
}

// free is how long a command waits for a lock that is free: only for a majority that answers in time.
const free = "30s"

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	redistest.Await(t, redistest.Slack*20*time.Second, 50*time.Millisecond, what, ok)
}

// moved is how long a client may take to find a server that is ready under another address: two seconds, and the
// dial timeout if it dials the old address meanwhile, where nobody answers or refuses.
const moved = 2*time.Second + 5*time.Second

// The lock is held by one command throughout. Each server is stopped in turn, and comes back under another address.
// If one of them had forgotten the lock, it would be lost with the second. The TTL is longer than a server is away
// on a busy machine: it counts on while a server is down.
func TestALockOutlivesEachServerAndEachIsFoundByItsName(t *testing.T) {
	f := deploy(t, "")
	f.isContent(t)
	const name = "ledger"
	holder := f.command(t, "run", "--ttl", "5m", "--wait", free, name, "--", "redlock", "status", "--nodes-file", nodesFile,
		"--watch", "--json", "--interval", "100ms", name)
	heldOn := func(s status) (n int) {
		for _, node := range s.Nodes {
			if node.Held {
				n++
			}
		}
		return n
	}
	last := func() (s status) {
		if all := statuses(t, holder); len(all) > 0 {
			s = all[len(all)-1]
		}
		return s
	}
	var found status
	await(t, "the lock is held", func() bool {
		_, errs := holder.Logs(t)
		require.False(t, holder.Ended(t), errs)
		found = last()
		return heldOn(found) == 3
	})
	id, connections := found.ID, len(f.connected(t, f.nodes[0]))
	for i, letter := range letters {
		from, to := f.Move(t, f.nodes[i], host(letter))
		await(t, "all nodes have the lock", func() bool {
			found = last()
			return heldOn(found) == 3
		})
		require.Equal(t, id, found.ID)
		ready := f.nodes[i].ReadySince(t)
		took := found.At.Sub(ready)
		t.Logf("%s moved from %s to %s: found %v after it was ready", letter, from, to, took.Round(time.Millisecond))
		assert.LessOrEqual(t, took, redistest.Slack*moved)
	}
	without := map[string]bool{} // the servers without which the lock was seen to be held
	for _, s := range statuses(t, holder) {
		if s.State == "unclear" {
			continue // no majority answered in time, since the machine stopped
		}
		assert.Equal(t, "held", s.State)
		assert.Equal(t, id, s.ID)
		for _, n := range s.Nodes {
			if n.Error != "" {
				without[n.Node] = true
			}
		}
	}
	assert.GreaterOrEqual(t, len(without), 2, "the machine may stop while one server is away, and not whenever a server is: %v", without)
	for _, n := range f.nodes { // or it would leave a key to its TTL on a server that it has not found yet
		await(t, "the holder and the watching command are connected",
			func() bool { return len(f.connected(t, n)) >= connections })
	}
	holder.Stop(t)
	code, _, errs := holder.Wait(t)
	assert.Zero(t, code, "the watching command ended well, and the lock was not lost: %s", errs)
	redistest.NoKeys(t, f.nodes, 2*time.Second)
	f.isContent(t)
	assert.Empty(t, f.denials(t))
}

// The user default is off, but has all rights. Without them a server drops the transactions of its file, and so
// locks with a fence. A server that does not is one that this line is not needed for.
func TestAServerForgetsFencedLocksIfTheUserDefaultHasNoRights(t *testing.T) {
	f := deploy(t, "")
	acquire := func(wait string) (code int, said string) {
		code, out, errs := served(t, func() *redistest.Program { return f.command(t, "acquire", "--ttl", "5m", "--wait", wait, "kept") })
		return code, out + errs
	}
	code, said := acquire(free)
	require.Zero(t, code, said)
	had := 0
	for _, n := range f.nodes { // a majority has the lock: the command does not wait for the third
		before := lockKeys(t, n)
		had += len(before)
		n.Restart(t)
		assert.Subset(t, lockKeys(t, n), before)
	}
	assert.GreaterOrEqual(t, had, 2)
	code, said = acquire("0")
	require.Equal(t, 75, code, "it is still held: %s", said)

	f.acl = func(acl string) string {
		return strings.Replace(acl, "default reset off ~* &* +@all", "default reset off", 1)
	}
	f.start(t)
	code, said = acquire(free)
	require.Zero(t, code, said)
	f.nodes[0].Restart(t)
	if keys := lockKeys(t, f.nodes[0]); len(keys) > 0 {
		t.Logf("this version needs no such rights: %q", keys)
	}
}

// connected returns the connections of services with a server.
func (f *fleet) connected(t *testing.T, n *redistest.Node) (found []string) {
	t.Helper()
	list, err := redis.String(n.Do(t, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	for line := range strings.Lines(list) {
		if strings.Contains(line, " user=app ") {
			found = append(found, line)
		}
	}
	return found
}

// lockKeys returns the keys of locks, without those of fences.
func lockKeys(t *testing.T, n *redistest.Node) []string {
	t.Helper()
	return n.Keys(t, "app/*")
}

// Two clusters run the same CronJob. The command that it runs is another one here.
func TestTheCronJobOfTwoClustersWorksInOne(t *testing.T) {
	f := deploy(t, "")
	c := described(t, "base/clients/cronjob.yaml", "CronJob")
	c.Args[len(c.Args)-1] = "redlock"
	start := func() *redistest.Program { return f.run(t, c, "redlock-nodes", "version") }
	worked := 0
	for _, p := range []*redistest.Program{start(), start()} {
		code, out, _ := p.Wait(t)
		if code == 69 { // a Job is repeated, too
			_, out, _ = served(t, start)
		}
		if strings.HasPrefix(out, "redlock ") {
			worked++
		}
	}
	assert.Equal(t, 1, worked)
	assert.Empty(t, f.denials(t))
}

func TestTheRightsAreEnoughAndNoneTooMany(t *testing.T) {
	f := deploy(t, "")
	f.isContent(t)
	claim := f.command(t, "acquire", "--ttl", "5m", "--wait", free, "x") // three commands follow in that time
	code, out, errs := claim.Wait(t)
	require.Zero(t, code, errs)
	waiter := f.command(t, "run", "--wait", "5m", "x", "--", "redlock", "version")
	await(t, "it waits", func() bool {
		n, err := redis.Int(lastOf(t, f.nodes[0], "PUBSUB", "NUMSUB", "redlock:free:app/x"), nil)
		return err == nil && n > 0
	})
	for _, args := range [][]string{
		{"status", "x"},
		{"extend", strings.TrimSpace(out)},
		{"release", strings.TrimSpace(out)},
	} {
		tries := 0
		code, _, errs := served(t, func() *redistest.Program {
			tries++
			return f.command(t, args...)
		})
		if args[0] == "release" && tries > 1 && code == 74 {
			continue // the first one has deleted the keys, and was not told
		}
		require.Zero(t, code, "%s: %s", args[0], errs)
	}
	code, out, errs = waiter.Wait(t)
	require.Zero(t, code, errs)
	require.Contains(t, out, "redlock")
	require.Empty(t, f.denials(t))

	for user, secret := range map[string]string{"app": "redlock-nodes", "doctor": "redlock-doctor"} {
		conn, err := f.nodes[0].Dial(redis.DialUsername(user), redis.DialPassword(f.password(t, secret, 0)))
		require.NoError(t, err, user)
		for _, command := range [][]any{
			{"SHUTDOWN"},
			{"FLUSHALL"},
			{"CONFIG", "SET", "appendonly", "no"},
			{"REPLICAOF", "a", "1"},
			{"KEYS", "*"},
			{"SCAN", 0},
			{"MONITOR"},
			{"ACL", "LIST"},
			{"SWAPDB", 0, 1},
			{"SLOWLOG", "GET"},
			{"GET", "other"},
			{"SET", "other", "x"},
			{"SUBSCRIBE", "other"},
		} {
			_, err := conn.Do(command[0].(string), command[1:]...)
			assert.ErrorContains(t, err, "NOPERM", "%s: %v", user, command)
		}
		require.NoError(t, conn.Close())
	}
	_, err := f.nodes[0].Dial(redis.DialUsername("app"), redis.DialPassword(f.password(t, "redlock-nodes", 1)))
	require.ErrorContains(t, err, "WRONGPASS", "the password of another server")
	probe, err := f.nodes[0].Dial(redis.DialUsername("probe"), redis.DialPassword(f.secrets["redlock-server-a"]["probe"]))
	require.NoError(t, err)
	pong, err := redis.String(probe.Do("PING"))
	require.NoError(t, err)
	require.Equal(t, "PONG", pong)
	_, err = probe.Do("INFO")
	require.ErrorContains(t, err, "NOPERM")
	require.NoError(t, probe.Close())
}

// The overlay tls: each server has a certificate for its name, and no port without TLS.
func TestTheServersSpeakTLSAlone(t *testing.T) {
	f := deploy(t, tlsConf)
	f.isContent(t)
	code, out, errs := f.command(t, "run", "--wait", free, "z", "--", "redlock", "version").Wait(t)
	require.Zero(t, code, errs)
	require.Contains(t, out, "redlock")
	assert.Empty(t, f.denials(t))

	plain := f.secrets["redlock-nodes"]
	plain["nodes"] = strings.ReplaceAll(plain["nodes"], "rediss://", "redis://")
	f.ca = ""
	code, _, errs = f.command(t, "run", "--wait", "0", "z", "--", "redlock", "version").Wait(t)
	assert.Equal(t, 69, code, errs)
}

// The overlay guard: servers keep nothing, the Job admits them, and one that restarts is quarantined.
func TestServersThatKeepNothingAreAdmittedAndQuarantined(t *testing.T) {
	f := deploy(t, guardConf)
	kept, err := redis.Strings(f.nodes[0].Do(t, "CONFIG", "GET", "appendonly"), nil)
	require.NoError(t, err)
	require.Equal(t, "no", kept[1])
	f.env["REDLOCK_GUARD"] = "1m" // that of the overlay
	job := func(args ...string) (int, string, string) {
		c := described(t, "base/clients/cronjob.yaml", "CronJob")
		c.Args[len(c.Args)-1] = "redlock"
		return served(t, func() *redistest.Program { return f.run(t, c, "redlock-nodes", args...) })
	}
	code, _, errs := job("version")
	require.Equal(t, 78, code, "the guard has not begun: %s", errs)
	var out string
	await(t, "all nodes answer in time", func() bool {
		code, out, errs = f.run(t, described(t, "overlays/guard/clients/admit.yaml", "Job"), "redlock-admin").Wait(t)
		return redistest.Admitted(t, f.nodes, out+errs)
	})
	require.Zero(t, code, "%s%s", out, errs)
	code, out, errs = job("version")
	require.Zero(t, code, errs)
	require.Contains(t, out, "redlock")

	const quarantine = time.Minute
	restarted := time.Now()
	f.nodes[0].Restart(t)
	quarantined := func() bool { // two nodes decide the acquire
		code, out, errs = f.command(t, "run", "--ttl", "30s", "--wait", free, "y", "--", "redlock", "version").Wait(t)
		require.Zero(t, code, "two of three vote: %s", errs)
		require.Contains(t, out, "redlock")
		_, out, _ = f.run(t, described(t, "base/clients/doctor.yaml", "Job"), "redlock-doctor", "--json").Wait(t)
		guard := decoded[report](t, out).Nodes[0].Guard
		if guard == "ok" { // the answers of its whole quarantine were late
			require.GreaterOrEqual(t, time.Since(restarted), quarantine, "it votes before the end of its quarantine")
			restarted = time.Now()
			f.nodes[0].Restart(t)
		}
		return guard == "quarantined"
	}
	redistest.Await(t, redistest.Slack*quarantine, 50*time.Millisecond, "an acquire reaches the node that restarted", quarantined)
}

// lastOf returns the last part of a reply.
func lastOf(t *testing.T, n *redistest.Node, cmd string, args ...any) any {
	t.Helper()
	parts, err := redis.Values(n.Do(t, cmd, args...), nil)
	require.NoError(t, err)
	return parts[len(parts)-1]
}
